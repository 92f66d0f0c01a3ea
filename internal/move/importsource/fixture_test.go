package importsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/cases"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// fixture is the settings.json of a source.
type fixture struct {
	Input struct {
		Source importsource.Source
		Label  string
		Hosts  []struct {
			Host   string
			Domain *string
		}
		API struct{ BaseURL, Token, Account string }
	}
	Domains []struct {
		Ref, Host, CodeSpace string
		CaseSensitive        bool
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
			want, got := expected(t, c.folder+"/"+c.expected), f.outcomes(t, read(t, f.settings(), file))
			for i, row := range want {
				if origin, ok := row["origin"].(map[string]any); ok && c.folder == "bitly" { // its file has no clicks
					delete(origin, "clicks")
				}
				if c.folder == "json_lines" && row["outcome"] == "FAILED" && i < len(got) { // has no hosts of these
					delete(got[i], "host")
				}
			}
			diff(t, withoutEmpty(want), got)
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
			want, got := withoutEmpty(expected(t, c.folder+"/expected.json")), f.outcomes(t,
				read(t, s, bytes.Join(items, []byte("\n"))))
			if c.folder == "yourls" { // newest first
				for _, row := range slices.Concat(want, got) {
					delete(row, "line")
				}
				for _, rows := range [][]map[string]any{want, got} {
					slices.SortFunc(rows, func(a, b map[string]any) int {
						return strings.Compare(a["sourceId"].(string), b["sourceId"].(string))
					})
				}
			}
			diff(t, want, got)
		})
	}
}

func diff(t *testing.T, want, got []map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

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

// withoutEmpty leaves out origins about which nothing is known.
func withoutEmpty(rows []map[string]any) []map[string]any {
	for _, row := range rows {
		if origin, ok := row["origin"].(map[string]any); ok && len(origin) == 0 {
			delete(row, "origin")
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

// outcomes are the rows as an import in an empty workspace reports them. It replaces decisions of
// the caller: codes that are taken, reserved or not allowed, destinations on a domain of the
// workspace, periods and repeated rows.
func (f *fixture) outcomes(t *testing.T, rows []*importsource.Row) (outcomes []map[string]any) {
	t.Helper()
	taken, seen := map[string]string{}, map[string]string{}
	for _, row := range rows {
		full := f.outcome(t, row, taken)
		known, isKnown := seen[row.SourceID]
		text := string(must.Value(json.Marshal(without(full, "line")))(t))
		switch {
		case isKnown && known == text:
			full = map[string]any{"line": full["line"], "sourceId": full["sourceId"], "host": full["host"],
				"outcome": "UNCHANGED", "code": full["code"], "url": full["url"]}
			if full["host"] == nil {
				delete(full, "host")
			}
		case isKnown:
			full = failed(full, errs.Conflict)
		case full["outcome"] == "CREATED":
			seen[row.SourceID] = text
			if row.Code != "" {
				taken[f.key(row)] = row.SourceID
			}
		}
		outcomes = append(outcomes, full)
	}
	return outcomes
}

func without(row map[string]any, field string) map[string]any {
	rest := map[string]any{}
	for name, value := range row {
		if name != field {
			rest[name] = value
		}
	}
	return rest
}

func failed(row map[string]any, kind errs.Kind) map[string]any {
	left := map[string]any{"line": row["line"], "sourceId": row["sourceId"], "outcome": "FAILED",
		"errors": []any{kind.Code()}}
	if kind == errs.CodeTaken {
		left["outcome"] = "SKIPPED"
	}
	if host := row["host"]; host != nil {
		left["host"] = host
	}
	return left
}

// space returns where the links of a host go: a domain with codes of its own, or the shared codes.
func (f *fixture) space(host string) (ref string, isCaseSensitive bool) {
	for _, h := range f.Input.Hosts {
		for _, d := range f.Domains {
			if h.Host == host && h.Domain != nil && d.Ref == *h.Domain {
				return d.Ref, d.CaseSensitive
			}
		}
	}
	return "", true // the fixtures' custom codes differ in case
}

func (f *fixture) key(row *importsource.Row) string {
	ref, isCaseSensitive := f.space(row.Host)
	code := row.Code
	if !isCaseSensitive {
		code = cases.Fold().String(code)
	}
	return ref + "/" + code
}

// outcome is that of one row.
func (f *fixture) outcome(t *testing.T, row *importsource.Row, taken map[string]string) map[string]any {
	t.Helper()
	out := map[string]any{"line": float64(row.Line), "sourceId": row.SourceID, "outcome": "CREATED"}
	set(out, "host", row.Host)
	if row.Skipped {
		out["outcome"], out["losses"] = "SKIPPED", losses(row)
		return out
	}
	if row.Err != nil {
		return failed(out, row.Err.Kind)
	}
	ref, _ := f.space(row.Host)
	code := row.Code
	switch {
	case code == "":
	case ref != "":
		var err error
		if code, err = shortcode.ValidateOwn(code); err != nil {
			return failed(out, errs.InvalidInput)
		}
	case shortcode.ValidateCustom(code) != nil:
		return failed(out, errs.InvalidInput)
	case shortcode.Reserved(code):
		return failed(out, errs.CodeReserved)
	}
	if holder := taken[f.key(row)]; holder != "" && holder != row.SourceID && code != "" {
		return failed(out, errs.CodeTaken)
	}
	for _, d := range f.Domains {
		if must.Value(urlnorm.Canonical(row.URL))(t).Host() == d.Host {
			return failed(out, errs.UnsafeURL)
		}
	}
	if row.StartsAt != nil && row.ExpiresAt != nil && !row.StartsAt.Before(*row.ExpiresAt) {
		return failed(out, errs.InvalidInput)
	}
	f.fields(t, out, row)
	set(out, "code", code)
	return out
}

// fields adds the fields of a link, as createLink stores them.
func (f *fixture) fields(t *testing.T, out map[string]any, row *importsource.Row) {
	t.Helper()
	out["url"] = row.URL
	set(out, "title", optional.Value(must.Value(linkfield.CheckTitle(row.Title))(t)))
	set(out, "note", optional.Value(must.Value(linkfield.CheckNote(row.Note))(t)))
	if tags := must.Value(linkfield.CheckTags(row.Tags))(t); len(tags) > 0 {
		out["tags"] = anys(tags)
	}
	set(out, "folder", optional.Value(row.Folder))
	set(out, "externalId", optional.Value(row.ExternalID))
	if len(row.Metadata) > 0 {
		pairs := map[string]any{}
		for _, p := range row.Metadata {
			pairs[p.Key] = p.Value
		}
		out["metadata"] = pairs
	}
	setTime(out, "startsAt", row.StartsAt)
	setTime(out, "expiresAt", row.ExpiresAt)
	if row.MaxClicks != nil {
		out["maxClicks"] = float64(*row.MaxClicks)
	}
	if status := optional.Or(row.RedirectStatus, 302); status != 302 {
		out["redirectStatus"] = float64(status)
	}
	for name, value := range map[string]bool{"archived": row.Archived, "statsPublic": row.StatsPublic,
		"deleted": row.Deleted} {
		if value {
			out[name] = true
		}
	}
	origin := map[string]any{}
	setTime(origin, "createdAt", row.Origin.CreatedAt)
	setTime(origin, "lastClickedAt", row.Origin.LastClickedAt)
	if row.Origin.Clicks != nil {
		origin["clicks"] = float64(*row.Origin.Clicks)
	}
	if len(origin) > 0 {
		out["origin"] = origin
	}
	for _, past := range row.Past {
		out["origins"] = []any{string(past.Source)}
	}
	if list := losses(row); len(list) > 0 {
		out["losses"] = list
	}
	if r := routed(t, row); len(r) > 0 {
		out["routing"] = r
	}
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
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal(defaults.With(row.Routing)))(t), &out))
	if row.Routing.NewPassword() != nil {
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

func anys(texts []string) (list []any) {
	for _, text := range texts {
		list = append(list, text)
	}
	return list
}

func set(out map[string]any, name, text string) {
	if text != "" {
		out[name] = text
	}
}

func setTime(out map[string]any, name string, at *time.Time) {
	if at != nil {
		out[name] = at.Format(time.RFC3339Nano)
	}
}
