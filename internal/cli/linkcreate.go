package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/optional"
)

// linksCreate is `linkforge links create`, a client of the API.
type linksCreate struct {
	listing
	Client
	URL     string   `arg:"" name:"url" help:"The destination; - creates a link for each line of standard input."`
	Code    string   `help:"The code. Default: one that the server chooses."`
	Domain  string   `placeholder:"ID" help:"Id of a domain with codes of its own that gets the code."`
	Title   string   `help:"A title."`
	Note    string   `help:"A note for the members."`
	Tag     []string `help:"Tags."`
	Folder  string   `placeholder:"ID" help:"Id of the folder."`
	Expires string   `placeholder:"DATE" help:"When the link ends: a date, or a time from now as 90d."`
	QR      string   `name:"qr" type:"path" placeholder:"FILE" help:"Write the QR code of the short URL to a file .png or .svg."`
}

// maxImage bounds a QR code.
const maxImage = 4 << 20

// createdLink is the result for a URL.
type createdLink struct {
	// Line is that of standard input, from 1; zero for the only URL.
	Line     int        `json:"line,omitempty"`
	URL      string     `json:"url"`
	ShortURL *string    `json:"shortUrl"`
	Created  bool       `json:"created"`
	Ignored  []string   `json:"ignored"`
	Dropped  []string   `json:"dropped"`
	Errors   UserErrors `json:"errors"`
}

// Run creates one link, or many.
func (l linksCreate) Run(ctx context.Context, io IO) error {
	format := filepath.Ext(l.QR)
	switch many := l.URL == standardInput; {
	case l.URL == "":
		return errors.New("name the URL that the link leads to, or - for lines of standard input")
	case many && (l.Code != "" || l.QR != ""):
		return errors.New("--code and --qr are for one URL, and not for those of standard input")
	case l.QR != "" && format != ".png" && format != ".svg":
		return errors.New("--qr must be the name of a file that ends in .png or .svg")
	}
	fields, err := l.fields(time.Now())
	if err != nil {
		return err
	}
	workspaceID, err := l.workspaceID(ctx)
	if err != nil {
		return err
	}
	if l.URL == standardInput {
		return l.createAll(ctx, io, workspaceID, fields)
	}
	results, err := l.create(ctx, workspaceID, fields, []string{l.URL})
	if err == nil {
		err = results[0].Errors.First()
	}
	if err != nil {
		return err
	}
	if err := l.print(io, 0, results[0]); err != nil || l.QR == "" {
		return err
	}
	if err := writeQR(ctx, *results[0].ShortURL+format, l.QR); err != nil {
		return fmt.Errorf("the link was created, but its QR code was not written: %w", err)
	}
	return nil
}

// fields returns the fields of all links but their URLs.
func (l linksCreate) fields(now time.Time) (map[string]any, error) {
	fields := map[string]any{}
	for name, value := range map[string]string{"customCode": l.Code, "domainId": l.Domain, "title": l.Title,
		"note": l.Note, "folderId": l.Folder} {
		if value != "" {
			fields[name] = value
		}
	}
	if len(l.Tag) > 0 {
		fields["tags"] = l.Tag
	}
	if l.Expires != "" {
		at, err := parseInstant("--expires", l.Expires, now, 1)
		if err != nil {
			return nil, err
		}
		fields["expiresAt"] = at
	}
	return fields, nil
}

// create creates a link for each URL that is not empty, and returns the results in the order of the
// URLs. With an error, it returns those before it.
func (l linksCreate) create(
	ctx context.Context, workspaceID string, fields map[string]any, urls []string,
) ([]createdLink, error) {
	results, sent := make([]createdLink, len(urls)), []int{}
	for i, u := range urls {
		switch results[i].URL = u; {
		case !utf8.ValidString(u):
			results[i].Errors = UserErrors{{Code: "INVALID_URL", Message: "The URL must be UTF-8."}}
		case u != "":
			sent = append(sent, i)
		}
	}
	selection := "results { shortUrl created errors { code message field } }"
	if !l.isPublishable() { // such a key must not learn more
		selection = "results { shortUrl created ignored dropped errors { code message field } }"
	}
	known := 0
	err := inCalls(sent, maxCall, func(part []int) error {
		links, size := make([]map[string]any, 0, len(part)), 0
		for _, i := range part {
			link := maps.Clone(fields)
			link["url"], size = urls[i], size+len(urls[i])
			links = append(links, link)
		}
		if size > maxCallBytes && len(part) > 1 {
			return errTooLarge
		}
		got, err := mutate[struct{ Results []createdLink }](ctx, l.Client, "createLinks",
			map[string]any{"workspaceId": workspaceID, "links": links}, selection)
		if err == nil && len(got.Results) != len(part) {
			err = fmt.Errorf("the server has returned %d results for %d URLs", len(got.Results), len(part))
		}
		if err != nil {
			return err
		}
		for n, r := range got.Results {
			r.URL, known = urls[part[n]], part[n]+1
			results[part[n]] = r
		}
		return nil
	})
	if err != nil {
		return results[:known], err
	}
	return results, nil
}

// createAll creates a link for each line of standard input. A line of the output is for that of the
// input with the same number, and is empty for one that is empty or refused.
func (l linksCreate) createAll(ctx context.Context, io IO, workspaceID string, fields map[string]any) error {
	var urls []string
	line, all, refused := 0, 0, 0
	createPart := func() error {
		results, err := l.create(ctx, workspaceID, fields, urls)
		for _, r := range results {
			if line++; r.URL != "" {
				all++
			}
			if len(r.Errors) > 0 {
				refused++
			}
			if err := l.print(io, line, r); err != nil {
				return err
			}
		}
		if urls = urls[:0]; err != nil {
			return fmt.Errorf("line %d: %w", line+1, err)
		}
		return nil
	}
	for text, err := range lines(io.In) {
		if err != nil {
			return errors.Join(createPart(), fmt.Errorf("reading URLs: %w", err))
		}
		if urls = append(urls, strings.TrimSpace(string(text))); len(urls) == maxCall {
			if err := createPart(); err != nil {
				return err
			}
		}
	}
	switch err := createPart(); {
	case err != nil:
		return err
	case refused > 0 && refused == all:
		return ExitStatus(1)
	case refused > 0:
		return ExitStatus(2)
	}
	return nil
}

// print prints the short URL of a result, and to standard error what else a person has to know. The
// line is zero for the only URL.
func (l linksCreate) print(io IO, line int, r createdLink) error {
	where := ""
	if line > 0 {
		where = fmt.Sprintf("line %d: ", line)
	}
	if l.JSON {
		if r.URL == "" {
			return nil
		}
		r.Line = line
		return writeJSON(io.Out, r)
	}
	if err := r.Errors.First(); err != nil {
		fmt.Fprintf(io.Err, "%s%s\n", where, err)
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(io.Err, "%sthe link exists already, and keeps its %s\n", where, quotedList(r.Ignored))
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(io.Err, "%sthe link was deleted, and is restored without its %s\n", where, quotedList(r.Dropped))
	}
	_, err := fmt.Fprintln(io.Out, cell(optional.Value(r.ShortURL)))
	return err
}

// writeQR writes the public image of a short URL, in the style of the workspace, to a file.
func writeQR(ctx context.Context, address, file string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "image/") {
		return fmt.Errorf("%s answers %s", cell(address), quoted(response.Status))
	}
	image, err := io.ReadAll(io.LimitReader(response.Body, maxImage))
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o644) //nolint:gosec // a public image
}
