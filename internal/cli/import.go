package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/domain"
)

// linksImport is `linkforge links import`, a client of the API.
type linksImport struct {
	Client
	failuresFlag
	Source     string            `arg:"" help:"BITLY, DUB, KUTT, REBRANDLY, SHLINK, SHORT_IO, SINK, YOURLS, LINKFORGE, CSV or JSON_LINES."`
	File       string            `arg:"" optional:"" type:"existingfile" help:"The file; - is standard input. Without it, the API of the source is read, with the token in LINKFORGE_SOURCE_TOKEN."`
	Apply      bool              `help:"Import for good, instead of a dry run."`
	Wait       bool              `help:"Wait for the end, and show the result; exit status 2 if rows failed or were skipped."`
	Label      string            `help:"Name of the account or instance that the rows come from."`
	OnConflict string            `default:"SKIP" help:"What happens to rows whose codes are taken: SKIP, RENAME or REPLACE."`
	Host       map[string]string `placeholder:"HOST=DOMAIN" help:"Domain, by its host or its id, that gets the links of a host of the source; empty for the shared codes."`
	Folder     string            `help:"Id of the folder of all links."`
	Tag        []string          `help:"Tags that all links get."`
	BaseURL    string            `name:"base-url" help:"Base URL of a self-hosted source."`
	Account    string            `help:"Account within the source."`
}

// sourceToken is the variable with the token of a source's API.
const sourceToken = "LINKFORGE_SOURCE_TOKEN"

// Run starts an import.
func (l linksImport) Run(ctx context.Context, io IO) error {
	token := io.Getenv(sourceToken)
	if l.File == "" && token == "" {
		return errors.New("name a file, or set " + sourceToken + " to read the API of the source")
	}
	if err := l.check(l.Wait); err != nil {
		return err
	}
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	in, err := l.input(ctx, workspaceID, token)
	if err != nil {
		return err
	}
	got, err := mutate[startedTask](ctx, l.Client, "createImport", in, "task { id } uploadUrl")
	if err != nil {
		return err
	}
	if got.UploadURL != nil {
		if err := l.send(ctx, io, *got.UploadURL); err != nil {
			return err
		}
	}
	return l.follow(ctx, io, got.Task.ID, l.Wait, l.Failures)
}

// input returns the input of createImport.
func (l linksImport) input(ctx context.Context, workspaceID, token string) (map[string]any, error) {
	in := map[string]any{
		"workspaceId": workspaceID, "source": strings.ToUpper(l.Source), "dryRun": !l.Apply,
		"onConflict": strings.ToUpper(l.OnConflict),
		"label":      optional.Of(l.Label), "folderId": optional.Of(l.Folder), "tags": l.Tag,
	}
	hosts, err := l.hosts(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	in["hosts"] = hosts
	if l.File == "" {
		in["api"] = map[string]any{"baseUrl": optional.Of(l.BaseURL), "account": optional.Of(l.Account),
			"token": token}
	}
	return in, nil
}

// hosts returns which domains get the links of hosts, by the ids of the domains.
func (l linksImport) hosts(ctx context.Context, workspaceID string) (hosts []map[string]any, err error) {
	var ids map[string]string
	for _, host := range slices.Sorted(maps.Keys(l.Host)) {
		chosen := l.Host[host]
		if chosen != "" && !id.Valid(id.Domain, chosen) {
			if ids == nil {
				if ids, err = l.domains(ctx, workspaceID); err != nil {
					return nil, err
				}
			}
			name := chosen
			if chosen = ids[hostName(name)]; chosen == "" {
				return nil, fmt.Errorf("--host: the workspace has no domain %s; it has: %s", quoted(name),
					cmp.Or(strings.Join(slices.Sorted(maps.Keys(ids)), ", "), "none"))
			}
		}
		hosts = append(hosts, map[string]any{"host": host, "domainId": optional.Of(chosen)})
	}
	return hosts, nil
}

// hostName returns the canonical form of a host, or the text if it is none.
func hostName(text string) string {
	if host, err := domain.CanonicalHost(text); err == nil {
		return host
	}
	return text
}

// domains returns the ids of the domains of a workspace, which are at most 100, by their hosts.
func (l linksImport) domains(ctx context.Context, workspaceID string) (map[string]string, error) {
	var got struct {
		Workspace struct {
			Domains struct{ Nodes []struct{ ID, Host string } }
		}
	}
	err := l.Do(ctx, &got, `query ($w: ID!) { workspace(by: {id: $w}) { domains(first: 100) { nodes { id host } } } }`,
		map[string]any{"w": workspaceID})
	if err != nil {
		return nil, fmt.Errorf("--host takes the ids of domains if it cannot read their hosts: %w", err)
	}
	ids := map[string]string{}
	for _, d := range got.Workspace.Domains.Nodes {
		ids[d.Host] = d.ID
	}
	return ids, nil
}

// send sends the file to the URL of an upload.
func (l linksImport) send(ctx context.Context, from IO, uploadURL string) error {
	in, err := from.open(l.File)
	if err != nil {
		return err
	}
	defer in.Close()
	file, size, err := sized(in)
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.File, err)
	}
	defer file.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, uploadURL, file)
	if err != nil {
		return err
	}
	if r.ContentLength = size; size == 0 {
		r.Body = http.NoBody
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("sending the file: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusCreated {
		return nil
	}
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return fmt.Errorf("sending the file: the server answers %s %s", response.Status, strings.TrimSpace(string(answer)))
}

// sized returns an input with its size, which uploads state in advance. It copies an
// input without a size, such as a pipe, to a temporary file, which Close removes.
func sized(in io.Reader) (io.ReadCloser, int64, error) {
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return io.NopCloser(file), info.Size(), nil
		}
	}
	file, err := os.CreateTemp("", "linkforge-import-")
	if err != nil {
		return nil, 0, err
	}
	copied := temporary{file}
	size, err := io.Copy(file, in)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, copied.Close())
	}
	return copied, size, nil
}

// temporary is a file that closing removes.
type temporary struct{ *os.File }

// Close implements io.Closer.
func (t temporary) Close() error {
	if err := t.File.Close(); err != nil {
		return err // as the second time
	}
	return os.Remove(t.Name())
}
