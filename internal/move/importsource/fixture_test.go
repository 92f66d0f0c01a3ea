package importsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// fixture is the settings.json of a source.
type fixture struct {
	Input struct {
		Source importsource.Source
		Label  string
		API    struct{ BaseURL, Token, Account string }
	}
	Now time.Time
}

func load[T any](t *testing.T, path string) (v T) {
	t.Helper()
	text := must.Value(os.ReadFile(filepath.Join("testdata", path)))(t)
	must.NoError(t, json.Unmarshal(text, &v))
	return v
}

func (f *fixture) settings() *importsource.Settings {
	return &importsource.Settings{Source: f.Input.Source, BaseURL: f.Input.API.BaseURL, Token: f.Input.API.Token,
		Account: f.Input.API.Account, Label: f.Input.Label, ClickTotals: true, Now: f.Now}
}

// TestRows_EqualFixtures compares the rows of each file and API with expected.json.
func TestRows_EqualFixtures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ folder, file, expected string }{
		{"bitly", "bitlinks.json", "expected.json"},
		{"dub", "links.json", "expected.json"},
		{"dub", "links.csv", "expected_csv.json"},
		{"kutt", "links.json", "expected.json"},
		{"rebrandly", "links.json", "expected.json"},
		{"shlink", "short-urls.json", "expected.json"},
		{"short_io", "links.json", "expected.json"},
		{"sink", "export.json", "expected.json"},
		{"yourls", "yourls_url.csv", "expected.json"},
		{"csv", "links.csv", "expected.json"},
		{"json_lines", "links.jsonl", "expected.json"},
		{"linkforge", "archive.tar.gz", "expected.json"},
	} {
		t.Run(c.folder+"/"+c.file, func(t *testing.T) {
			t.Parallel()
			f := load[fixture](t, c.folder+"/settings.json")
			file := must.Value(os.ReadFile(filepath.Join("testdata", c.folder, c.file)))(t)
			want := expected(t, c.folder+"/"+c.expected)
			for _, row := range want {
				if origin, ok := row["origin"].(map[string]any); ok && c.folder == "bitly" { // its file has no clicks
					delete(origin, "clicks")
				}
			}
			wantRows(t, want, read(t, f.settings(), file))
		})
		if c.expected != "expected.json" || c.folder == "csv" || c.folder == "json_lines" || c.folder == "linkforge" {
			continue
		}
		t.Run(c.folder+"/api", func(t *testing.T) {
			t.Parallel()
			f := load[fixture](t, c.folder+"/settings.json")
			s := f.settings()
			items := fetchAll(t, s, replay(t, c.folder))
			s.Fetched = true
			want := expected(t, c.folder+"/expected.json")
			if c.folder == "yourls" { // newest first
				slices.Reverse(want)
				for i, row := range want {
					row["line"] = float64(i + 1)
				}
			}
			wantRows(t, want, read(t, s, bytes.Join(items, []byte("\n"))))
		})
	}
}

// wantRows compares rows with the report of an import in an empty workspace. Where the importer has
// not created a link from a row that can be read, only the identity of the row counts.
func wantRows(t *testing.T, want []map[string]any, rows []*importsource.Row) {
	t.Helper()
	var got []map[string]any
	for _, row := range want {
		if origin, ok := row["origin"].(map[string]any); ok && len(origin) == 0 { // about which nothing is known
			delete(row, "origin")
		}
	}
	for i, row := range rows {
		out := present(t, map[string]any{"line": row.Line, "sourceId": row.SourceID, "outcome": "CREATED",
			"host": row.Host})
		switch {
		case row.Skipped:
			out["outcome"], out["losses"] = "SKIPPED", losses(row)
		case row.Err != nil:
			out["outcome"], out["errors"] = "FAILED", []any{row.Err.Kind.Code()}
		case i < len(want) && want[i]["outcome"] != "CREATED":
			maps.DeleteFunc(want[i], func(field string, _ any) bool { return !slices.Contains(identity, field) })
			maps.DeleteFunc(out, func(field string, _ any) bool { return !slices.Contains(identity, field) })
		default:
			fields(t, out, row)
		}
		if row.Err != nil && want[min(i, len(want)-1)]["host"] == nil {
			delete(out, "host")
		}
		got = append(got, out)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

var identity = []string{"line", "sourceId"}

// expected returns the outcomes of a fixture.
func expected(t *testing.T, path string) []map[string]any {
	t.Helper()
	var rows []map[string]any
	if strings.HasPrefix(path, "csv/") || strings.HasPrefix(path, "linkforge/") {
		rows = load[struct{ Rows []map[string]any }](t, path).Rows
	} else {
		rows = load[[]map[string]any](t, path)
	}
	for _, row := range rows {
		delete(row, "strategy") // follows from the code
		if r, ok := row["routing"].(map[string]any); ok {
			rules, _ := r["rules"].([]any)
			for _, rule := range rules {
				if list, ok := rule.(map[string]any)["unless"].([]any); ok && len(list) == 0 {
					delete(rule.(map[string]any), "unless")
				}
			}
		}
		if past, ok := row["origins"].([]any); ok {
			row["origins"] = past[:len(past)-1] // the last is of this import
		}
	}
	return rows
}

// read returns all rows of a file.
func read(t *testing.T, s *importsource.Settings, file []byte) (rows []*importsource.Row) {
	t.Helper()
	for row, err := range importsource.Rows(s, bytes.NewReader(file)) {
		must.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// replay answers with the exchanges of api.jsonl. Like any caller it repeats a request that is
// refused by a rate.
func replay(t *testing.T, folder string) importsource.Fetch {
	t.Helper()
	type exchange struct {
		URL            string
		RequestHeaders map[string]string
		Status         int
		Body           json.RawMessage
		Text           string
	}
	left := map[string][]exchange{}
	text := must.Value(os.ReadFile(filepath.Join("testdata", folder, "api.jsonl")))(t)
	for line := range bytes.Lines(text) {
		var e exchange
		must.NoError(t, json.Unmarshal(line, &e))
		left[e.URL] = append(left[e.URL], e)
	}
	return func(_ context.Context, r importsource.Request) (importsource.Response, error) {
		for {
			known := left[r.URL]
			if len(known) == 0 {
				return importsource.Response{}, errs.New(errs.NotFound, "%s is not in api.jsonl.", r.URL)
			}
			if len(known) > 1 {
				left[r.URL] = known[1:]
			}
			e := known[0]
			if diff := cmp.Diff(e.RequestHeaders, r.Header); len(e.RequestHeaders)+len(r.Header) > 0 && diff != "" {
				t.Errorf("header of %s (-want +got):\n%s", r.URL, diff)
			}
			if e.Status == 429 {
				continue
			}
			body := []byte(e.Body)
			if e.Text != "" {
				body = []byte(e.Text)
			}
			return importsource.Response{Status: e.Status, Body: body}, nil
		}
	}
}

// fetchAll returns the items of an API, read by a new Fetcher for each page.
func fetchAll(t *testing.T, s *importsource.Settings, fetch importsource.Fetch) (items [][]byte) {
	t.Helper()
	for cursor := ""; ; {
		f := must.Value(importsource.NewFetcher(s, fetch))(t)
		f.Resume(slices.Values(items))
		page := must.Value(f.Next(t.Context(), cursor))(t)
		items = append(items, page.Items...)
		if cursor = page.Next; cursor == "" {
			return items
		}
	}
}

// fields adds the fields of a link, as createLink stores them.
func fields(t *testing.T, out map[string]any, row *importsource.Row) {
	t.Helper()
	metadata, sources := map[string]string{}, []importsource.Source{}
	for _, p := range row.Metadata.To {
		metadata[p.Key] = p.Value
	}
	for _, past := range row.Past {
		sources = append(sources, past.Source)
	}
	status := optional.Of(row.RedirectStatus.To)
	if optional.Or(status, 302) == 302 {
		status = nil
	}
	maps.Copy(out, present(t, map[string]any{
		"url": row.URL, "code": validate.Normal(row.Code), "title": must.Value(linkfield.CheckTitle(row.Title.To))(t),
		"note":   must.Value(linkfield.CheckNote(row.Note.To))(t),
		"tags":   must.Value(linkfield.CheckTags(row.Tags.To))(t),
		"folder": row.Folder, "externalId": row.ExternalID.To, "metadata": metadata, "startsAt": row.StartsAt.To,
		"expiresAt": row.ExpiresAt.To, "maxClicks": row.MaxClicks.To, "redirectStatus": status,
		"archived":    row.Archived.To,
		"statsPublic": row.StatsPublic.To, "deleted": row.Deleted, "origins": sources, "losses": losses(row),
		"routing": routed(t, row), "origin": present(t, map[string]any{
			"createdAt": row.Origin.CreatedAt, "lastClickedAt": row.Origin.LastClickedAt, "clicks": row.Origin.Clicks,
		}),
	}))
}

// present returns fields as JSON has them, without those that are not given.
func present(t *testing.T, fields map[string]any) (out map[string]any) {
	t.Helper()
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal(fields))(t), &out))
	maps.DeleteFunc(out, func(_ string, v any) bool {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		return v == nil || v == "" || v == false || isList && len(list) == 0 || isObject && len(object) == 0
	})
	return out
}

// routed returns the routing of a link that has all defaults of a workspace before, which must not
// remain.
func routed(t *testing.T, row *importsource.Row) map[string]any {
	t.Helper()
	other := "https://default.example/"
	defaults := &routing.Routing{ForwardPath: true, PendingURL: &other, EndedURL: &other, Bots: routing.BlockBots,
		Query: routing.Forwarding{Mode: routing.Add}, Gate: &routing.Gate{Confirm: true}, QRSources: []string{"a"},
		Card: &routing.Card{Title: "default"}, UTM: &routing.UTM{Source: &other}, Tests: []*routing.Test{{}},
		Rules: []*routing.Rule{{Targets: []*routing.Target{{URL: &other}}}}}
	var out map[string]any
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal(defaults.With(row.Routing.To)))(t), &out))
	if row.Routing.To.NewPassword() != nil {
		out["gate"] = map[string]any{"hasPassword": true}
	}
	rules, _ := out["rules"].([]any)
	for _, rule := range rules {
		rule := rule.(map[string]any)
		if rule["when"] == nil {
			rule["when"] = []any{}
		}
		targets, _ := rule["targets"].([]any)
		for _, target := range targets {
			if target := target.(map[string]any); target["url"] == nil {
				target["url"] = nil
			}
		}
	}
	return out
}

func losses(row *importsource.Row) (list []any) {
	for _, l := range row.Losses {
		list = append(list, map[string]any{"field": l.Field, "reason": string(l.Reason)})
	}
	return list
}
