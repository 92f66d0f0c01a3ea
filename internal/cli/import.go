package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/optional"
)

// linksImport is `linkforge links import`, a client of the API.
type linksImport struct {
	Client
	Source     string            `arg:"" help:"BITLY, DUB, KUTT, REBRANDLY, SHLINK, SHORT_IO, SINK, YOURLS, LINKFORGE, CSV or JSON_LINES."`
	File       string            `arg:"" optional:"" type:"existingfile" help:"The file. Without it, the API of the source is read."`
	Apply      bool              `help:"Import for good, instead of a dry run."`
	Wait       bool              `help:"Wait for the end, and show the result; exit status 2 if rows failed or were skipped."`
	Label      string            `help:"Name of the account or instance that the rows come from."`
	OnConflict string            `default:"SKIP" help:"What happens to rows whose codes are taken: SKIP, RENAME or REPLACE."`
	Host       map[string]string `placeholder:"HOST=DOMAIN" help:"Domain, by its id, that gets the links of a host of the source."`
	Folder     string            `help:"Id of the folder of all links."`
	Tag        []string          `help:"Tags that all links get."`
	BaseURL    string            `name:"base-url" help:"Base URL of a self-hosted source."`
	Account    string            `help:"Account within the source."`
	Token      string            `env:"LINKFORGE_SOURCE_TOKEN" placeholder:"TOKEN" help:"Token of the API. Set the variable instead: other users see arguments."`
}

// Run starts an import.
func (l linksImport) Run(ctx context.Context, io IO) error {
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	if l.File == "" && l.Token == "" {
		return errors.New("name a file, or set LINKFORGE_SOURCE_TOKEN to read the API of the source")
	}
	var got struct {
		CreateImport struct {
			Task      *struct{ ID string }
			UploadURL *string
			Errors    UserErrors
		}
	}
	err = l.Do(ctx, &got,
		`mutation ($in: CreateImportInput!) { createImport(input: $in) {
			task { id } uploadUrl errors { message field } } }`,
		map[string]any{"in": l.input(workspaceID)})
	if err == nil {
		err = got.CreateImport.Errors.First()
	}
	if err != nil {
		return err
	}
	taskID := got.CreateImport.Task.ID
	if got.CreateImport.UploadURL != nil {
		if err := send(ctx, *got.CreateImport.UploadURL, l.File); err != nil {
			return err
		}
	}
	if l.Wait {
		return l.watch(ctx, io, taskID)
	}
	_, err = fmt.Fprintf(io.Out, "%s\nwatch it with: linkforge tasks watch %[1]s\n", taskID)
	return err
}

// input returns the input of createImport.
func (l linksImport) input(workspaceID string) map[string]any {
	in := map[string]any{
		"workspaceId": workspaceID, "source": strings.ToUpper(l.Source), "dryRun": !l.Apply,
		"onConflict": strings.ToUpper(l.OnConflict),
		"label":      optional.Of(l.Label), "folderId": optional.Of(l.Folder), "tags": l.Tag,
	}
	var hosts []map[string]any
	for host, domainID := range l.Host {
		hosts = append(hosts, map[string]any{"host": host, "domainId": optional.Of(domainID)})
	}
	in["hosts"] = hosts
	if l.File == "" {
		in["api"] = map[string]any{"baseUrl": optional.Of(l.BaseURL), "account": optional.Of(l.Account),
			"token": l.Token}
	}
	return in
}

// send sends a file to the URL of an upload.
func send(ctx context.Context, uploadURL, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, uploadURL, file)
	if err != nil {
		return err
	}
	if r.ContentLength = info.Size(); r.ContentLength == 0 {
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
