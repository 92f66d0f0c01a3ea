package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	pages "github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// keysCommand is `linkforge keys list|create|revoke`. It works while servers run. Its changes are in
// the workspace's audit log, without an actor; an owner of the workspace counts as the creator.
type keysCommand struct {
	List   keysList   `cmd:"" help:"List the API keys of a workspace that are not revoked, newest first."`
	Create keysCreate `cmd:"" help:"Create an API key, and print its secret, which cannot be read again."`
	Revoke keysRevoke `cmd:"" help:"Revoke an API key: all nodes refuse it at once."`
}

type (
	keysList struct {
		listing
		pageFlags
		Slug string `arg:"" help:"The workspace's slug, or its id."`
	}
	keysCreate struct {
		listing
		Slug    string   `arg:"" help:"The workspace's slug, or its id."`
		Scopes  []string `required:"" placeholder:"SCOPE,…" help:"What the key may do: ${scopes}. A key with LINKS_CREATE alone is publishable."`
		Name    string   `default:"Command line" help:"The displayed name."`
		Host    []string `help:"The only hosts that its links may lead to; a publishable key needs some."`
		Folder  []string `placeholder:"ID" help:"Ids of the only folders whose links it can see."`
		Expires string   `placeholder:"DATE" help:"When it ends: a date, or a time from now as 90d. Default: never."`
	}
	keysRevoke struct {
		listing
		Slug string `arg:"" help:"The workspace's slug, or its id."`
		ID   string `arg:"" help:"The key's id, from linkforge keys list."`
	}
)

// Scopes lists what API keys may do.
func Scopes() string {
	var names []string
	for _, r := range workspace.Rules {
		if r.Keys {
			names = append(names, string(r.Permission))
		}
	}
	return strings.Join(names, ", ")
}

// keyRow is an API key in a list. Secret is set for a new one only.
type keyRow struct {
	ID         string                 `json:"id"`
	Name       string                 `json:"name"`
	Prefix     string                 `json:"prefix"`
	Scopes     []workspace.Permission `json:"scopes"`
	Folders    []string               `json:"folders"`
	CreatedAt  time.Time              `json:"createdAt"`
	ExpiresAt  *time.Time             `json:"expiresAt"`
	LastUsedAt *time.Time             `json:"lastUsedAt"`
	RevokedAt  *time.Time             `json:"revokedAt"`
	Secret     string                 `json:"secret,omitempty"`
}

func rowOfKey(k *apikey.Key) keyRow {
	return keyRow{k.ID, k.Name, k.Prefix, k.Permissions(), append([]string{}, k.Folders...), k.CreatedAt.UTC(),
		utc(k.ExpiresAt), utc(k.LastUsedAt), utc(k.RevokedAt), ""}
}

// scopes lists the scopes of the key.
func (r keyRow) scopes() string {
	names := make([]string, 0, len(r.Scopes))
	for _, one := range r.Scopes {
		names = append(names, string(one))
	}
	return strings.Join(names, ",")
}

// withKeys calls work with the operator's membership of a workspace.
func withKeys(
	ctx context.Context, f *config.Flags, slug string, work func(*apikey.Store, workspace.Membership) error,
) error {
	return withStores(f, func(s *stores.Stores) error {
		m, err := s.Workspaces.AdminRequire(ctx, slug)
		if err != nil {
			return err
		}
		return work(s.APIKeys, m)
	})
}

// Run lists keys.
func (k keysList) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(k.Limit); err != nil {
		return err
	}
	return withKeys(ctx, f, k.Slug, func(keys *apikey.Store, m workspace.Membership) error {
		found, err := keys.Rows().List(ctx, m, pages.Request{Size: k.Limit, After: k.After})
		if err != nil {
			return err
		}
		var rows []keyRow
		for _, one := range found.Items {
			rows = append(rows, rowOfKey(one))
		}
		head := "ID\tPREFIX\tNAME\tSCOPES\tFOLDERS\tCREATED\tEXPIRES\tLAST USED"
		err = show(io, k.listing, head, rows, func(r keyRow) []string {
			return []string{r.ID, r.Prefix, quoted(r.Name), r.scopes(), cmp.Or(strings.Join(r.Folders, ","), "-"),
				instant(&r.CreatedAt), instant(r.ExpiresAt), instant(r.LastUsedAt)}
		})
		k.printNext(io, len(rows), func() string { return rows[len(rows)-1].ID })
		return err
	})
}

// Run creates a key. The secret alone is on standard output, so that a shell can capture it.
func (k keysCreate) Run(ctx context.Context, f *config.Flags, io IO) error {
	in := apikey.NewKey{Name: k.Name, FolderIDs: k.Folder, Limits: apikey.Limits{DestinationHosts: k.Host}}
	for _, scope := range k.Scopes {
		in.Scopes = append(in.Scopes, workspace.Permission(strings.ToUpper(strings.TrimSpace(scope))))
	}
	if k.Expires != "" {
		at, err := parseInstant("--expires", k.Expires, time.Now(), 1)
		if err != nil {
			return err
		}
		in.ExpiresAt = &at
	}
	return withKeys(ctx, f, k.Slug, func(keys *apikey.Store, m workspace.Membership) error {
		created, secret, err := keys.Create(ctx, m, in)
		if err != nil {
			return err
		}
		row := rowOfKey(created)
		if row.Secret = secret; k.JSON {
			return writeJSON(io.Out, row)
		}
		fmt.Fprintf(io.Err, "created %s of %s with %s, expires: %s. This is its secret, which cannot be read again:\n",
			row.ID, m.Slug(), row.scopes(), instant(row.ExpiresAt))
		_, err = fmt.Fprintln(io.Out, secret)
		return err
	})
}

// Run revokes a key.
func (k keysRevoke) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withKeys(ctx, f, k.Slug, func(keys *apikey.Store, m workspace.Membership) error {
		revoked, err := keys.Revoke(ctx, m, k.ID)
		if err != nil {
			return err
		}
		return showOne(io, k.listing, rowOfKey(revoked), "revoked %s (%s)", revoked.ID, quoted(revoked.Name))
	})
}
