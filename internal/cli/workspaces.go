package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// workspacesCommand is `linkforge workspaces list|create|limits|delete|restore|restore-root-codes`,
// for use next to running servers. Its changes are in the workspace's audit log, without an actor.
type workspacesCommand struct {
	List    workspacesList    `cmd:"" help:"List the workspaces, oldest first, with deleted ones until their purge."`
	Create  workspacesCreate  `cmd:"" help:"Create a workspace that an account owns."`
	Limits  workspacesLimits  `cmd:"" help:"Set or reset the monthly quotas of a workspace."`
	Delete  workspacesDelete  `cmd:"" help:"Delete a workspace: its links respond 410, and it is purged after 30 days."`
	Restore workspacesRestore `cmd:"" help:"Restore a deleted workspace."`
	// RestoreRootCodes is for an instance that has moved.
	RestoreRootCodes workspacesRootCodes `cmd:"" help:"Have codes of an imported archive work at the root again, if they did at the same public URL."`
}

type (
	workspacesList struct {
		listing
		pageFlags
		Slug string `help:"Only the workspace with this current or former slug."`
	}
	workspacesCreate struct {
		listing
		Slug  string `arg:"" help:"The slug, its part of short URLs: 3 to 48 of a-z, 0-9 and -."`
		Owner string `required:"" placeholder:"EMAIL" help:"The address of the owner's account, from linkforge users create."`
		Name  string `help:"The displayed name, 1 to 100 characters. Default: the slug."`
	}
	workspacesLimits struct {
		listing
		Slug string `arg:"" help:"The workspace's slug, or its id."`
		// Not --hit-quota and --link-quota: these are the instance's.
		Hits  string `placeholder:"N" help:"Redirects of each link per month (UTC), or default: the instance's quota."`
		Links string `placeholder:"N" help:"New links per month (UTC), or default: the instance's quota."`
	}
	workspacesDelete struct {
		listing
		asking
		Slug string `arg:"" help:"The workspace's slug, or its id."`
	}
	workspacesRestore struct {
		listing
		Slug string `arg:"" help:"The workspace's slug, or its id."`
	}
	workspacesRootCodes struct {
		listing
		Slug string `arg:"" help:"The workspace's slug, or its id."`
	}
)

// workspaceRow is a workspace in a list.
type workspaceRow struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
	// HitQuota and LinkQuota are null where the instance's hold.
	HitQuota  *int64     `json:"hitQuota"`
	LinkQuota *int64     `json:"linkQuota"`
	CreatedAt time.Time  `json:"createdAt"`
	DeletedAt *time.Time `json:"deletedAt"`
}

func rowOfWorkspace(w *workspace.Workspace) workspaceRow {
	return workspaceRow{w.ID, w.Slug, w.Name, w.HitQuota, w.LinkQuota, w.CreatedAt.UTC(), utc(w.DeletedAt)}
}

// tenantRow is one with what only a list knows.
type tenantRow struct {
	workspaceRow
	Members int64    `json:"members"`
	Owners  []string `json:"owners"`
}

// Run lists workspaces.
func (w workspacesList) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(w.Limit); err != nil {
		return err
	}
	return withStores(f, func(s *stores.Stores) error {
		tenants, err := s.Workspaces.AdminList(ctx, w.Slug, w.After, w.Limit)
		if err != nil {
			return err
		}
		rows := make([]tenantRow, 0, len(tenants))
		for _, one := range tenants {
			rows = append(rows, tenantRow{rowOfWorkspace(&one.Workspace), one.Members,
				append([]string{}, one.Owners...)})
		}
		head := "ID\tSLUG\tNAME\tOWNERS\tMEMBERS\tHITS\tLINKS\tCREATED\tDELETED"
		err = show(io, w.listing, head, rows, func(r tenantRow) []string {
			return []string{
				r.ID, r.Slug, quoted(r.Name), cmp.Or(quotedList(r.Owners), "-"),
				strconv.FormatInt(r.Members, 10), allowance(r.HitQuota),
				allowance(r.LinkQuota),
				instant(&r.CreatedAt), instant(r.DeletedAt),
			}
		})
		w.printNext(io, len(rows), func() string { return rows[len(rows)-1].ID })
		return err
	})
}

// Run creates a workspace.
func (w workspacesCreate) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		owner, err := s.Accounts.AdminGetEnabled(ctx, w.Owner)
		if err != nil {
			return err
		}
		created, err := s.Workspaces.AdminCreate(ctx, owner.ID, cmp.Or(w.Name, w.Slug), w.Slug)
		if err != nil {
			return err
		}
		return showOne(io, w.listing, rowOfWorkspace(created), "created %s (%s), owned by %s", created.Slug, created.ID,
			quoted(owner.Email))
	})
}

// instances is what stands for the instance's own allowance.
const instances = "default"

func allowance(n *int64) string {
	if n == nil {
		return instances
	}
	return strconv.FormatInt(*n, 10)
}

// Run sets limits.
func (w workspacesLimits) Run(ctx context.Context, f *config.Flags, io IO) error {
	hits, wrongHits := parseLimit("--hits", w.Hits)
	links, wrongLinks := parseLimit("--links", w.Links)
	if err := errors.Join(wrongHits, wrongLinks); err != nil {
		return err
	}
	if hits == nil && links == nil {
		return errors.New("set --hits, --links or both to a number or default")
	}
	return withStores(f, func(s *stores.Stores) error {
		changed, err := s.Workspaces.SetLimits(ctx, w.Slug, hits, links)
		if err != nil {
			return err
		}
		return showOne(io, w.listing, rowOfWorkspace(changed),
			"%s: %s hits a month for each link, %s new links a month",
			changed.Slug, allowance(changed.HitQuota), allowance(changed.LinkQuota))
	})
}

// parseLimit is nil when nothing was said.
func parseLimit(flag, value string) (*workspace.Limit, error) {
	if value == "" {
		return nil, nil
	}
	if value == instances {
		return &workspace.Limit{}, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > workspace.MaxLimit {
		return nil, fmt.Errorf("%s is a whole number from 0 to %d, or %s", flag, int64(workspace.MaxLimit), instances)
	}
	return &workspace.Limit{Of: &n}, nil
}

// Run deletes a workspace.
func (w workspacesDelete) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		found, err := s.Workspaces.AdminGet(ctx, w.Slug)
		if err != nil {
			return err
		}
		if found.DeletedAt == nil {
			err = w.confirm(io, fmt.Sprintf("Delete %s (%s)? Its links answer 410, and it is purged after %d days.",
				found.Slug, quoted(found.Name), int(workspace.Undo.Hours()/24)))
		}
		if err != nil {
			return err
		}
		changed, err := s.Workspaces.AdminDelete(ctx, w.Slug)
		if err != nil {
			return err
		}
		return showOne(io, w.listing, rowOfWorkspace(changed),
			"deleted %s (%s): its links answer 410; on %s it is purged, until then: linkforge workspaces restore %s",
			changed.Slug, quoted(changed.Name), changed.DeletedAt.Add(workspace.Undo).UTC().Format(time.DateOnly),
			changed.Slug)
	})
}

// Run restores a workspace.
func (w workspacesRestore) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		changed, err := s.Workspaces.AdminRestore(ctx, w.Slug)
		if err != nil {
			return err
		}
		return showOne(io, w.listing, rowOfWorkspace(changed), "restored %s (%s)", changed.Slug, quoted(changed.Name))
	})
}

// Run claims root codes.
func (w workspacesRootCodes) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		var n int64
		var refused []string
		changed, err := s.Workspaces.AdminChange(ctx, w.Slug,
			func(ctx context.Context, tx bun.Tx, of *workspace.Workspace) (_ audit.Details, err error) {
				n, refused, err = s.Imports.RestoreRootCodes(ctx, tx, of.ID)
				return audit.Details{"rootCodes": n}, err
			})
		if err != nil {
			return err
		}
		err = showOne(io, w.listing, struct {
			workspaceRow
			RootCodes int64    `json:"rootCodes"`
			Refused   []string `json:"refusedCodes"`
		}{rowOfWorkspace(changed), n, refused}, "%s: %d more codes work at the root", changed.Slug, n)
		if err == nil && len(refused) > 0 {
			err = fmt.Errorf("refused %d codes, which the archive has at the root without a signature of this server "+
				"(LINKFORGE_CODE_SECRET and LINKFORGE_PUBLIC_URL of the export): %s", len(refused),
				strings.Join(refused, ", "))
		}
		return err
	})
}
