package importer_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// exchange is a request to the API of a source, with its response. Text is a body that is no JSON.
type exchange struct {
	URL             string
	RequestHeaders  map[string]string
	Status          int
	ResponseHeaders map[string]string
	Body            json.RawMessage
	Text            string
}

// replay is an http.RoundTripper that plays exchanges. A URL that occurs twice gets the responses
// in this order.
type replay struct {
	t     *testing.T
	mu    sync.Mutex
	known map[string][]exchange
}

func newReplay(t *testing.T, folder string) *replay {
	t.Helper()
	p := &replay{t: t, known: map[string][]exchange{}}
	for line := range bytes.Lines(read(t, folder+"/api.jsonl")) {
		var e exchange
		must.NoError(t, json.Unmarshal(line, &e))
		p.known[e.URL] = append(p.known[e.URL], e)
	}
	return p
}

func (p *replay) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[r.URL.String()]
	if len(known) == 0 {
		p.t.Errorf("%s is not in api.jsonl", r.URL)
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	}
	if len(known) > 1 {
		p.known[r.URL.String()] = known[1:]
	}
	e := known[0]
	for name, value := range e.RequestHeaders {
		if got := r.Header.Get(name); got != value {
			p.t.Errorf("%s: the header %s is %q, want %q", r.URL, name, got, value)
		}
	}
	header := http.Header{}
	for name, value := range e.ResponseHeaders {
		header.Set(name, value)
	}
	return &http.Response{StatusCode: e.Status, Header: header,
		Body: io.NopCloser(strings.NewReader(cmp.Or(e.Text, string(e.Body))))}, nil
}

// TestImport_ByAPIEqualsFixtures imports each source by its API: as a dry run, and then exactly the
// rows of the dry run.
func TestImport_ByAPIEqualsFixtures(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"bitly", "dub", "kutt", "rebrandly", "shlink", "short_io", "sink", "yourls"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := newBundle(t, d)
				f, in := b.fixture(t, folder)
				want := load[[]expectedRow](t, folder+"/expected.json")
				if folder == "yourls" { // whose API returns the newest link first
					slices.Reverse(want)
					for i := range want {
						want[i].Line = int64(i + 1)
					}
				}
				b.Import.Client = &http.Client{Transport: newReplay(t, folder)}
				api := f.Input.API
				in.API = &importer.API{BaseURL: api.BaseURL, Token: api.Token, Account: api.Account, ClickTotals: true}
				in.DryRun = true
				dry := b.run(t, must.Value(b.Import.Create(t.Context(), b.Mine, in))(t))
				b.wantOutcomes(t, dry, want)
				b.Import.Client = nil // the import sends no request
				applied := b.run(t, must.Value(b.Import.Apply(t.Context(), b.Mine, dry.ID))(t))
				b.wantOutcomes(t, applied, want)
				b.wantLinks(t, applied, want)
				if token := f.Input.API.Token; strings.Contains(b.dump(t), token) {
					t.Errorf("the token %s is still in the database", token)
				}
			})
		})
	}
}

// dump returns all tasks and events as text.
func (b *bundle) dump(t *testing.T) string {
	t.Helper()
	var all []string
	for _, table := range []string{"tasks", "audit_events", "import_rows"} {
		var rows []map[string]any
		must.NoError(t, b.db.NewSelect().Table(table).Scan(db.AsSystem(t.Context()), &rows))
		for _, row := range rows {
			if secret, ok := row["secret"].([]byte); ok && secret != nil {
				t.Errorf("%s has a secret", table)
			}
			all = append(all, fmt.Sprint(row))
		}
	}
	return strings.Join(all, "\n")
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// importSink creates a dry run by the API of a Sink server, which returns a status and a body for
// each request, from 1.
func (b *bundle) importSink(t *testing.T, answer func(n int) (status int, header http.Header, body string)) *task.Task {
	t.Helper()
	n := 0
	b.Import.Client = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		n++
		status, header, body := answer(n)
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
	return must.Value(b.Import.Create(t.Context(), b.Mine, importer.Settings{
		Source: importsource.Sink, OnConflict: importer.Skip, DryRun: true, Label: "mine",
		API: &importer.API{BaseURL: "https://s.example.com", Token: "token"},
	}))(t)
}

// TestImport_BoundsWhatAnAPIReturns as uploads are bounded, and stores it in chunks.
func TestImport_BoundsWhatAnAPIReturns(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Import.MaxBytes = 3 << 20
		endless := b.run(t, b.importSink(t, func(n int) (int, http.Header, string) {
			return http.StatusOK, nil, fmt.Sprintf(
				`{"version":"1.0","links":[{"slug":"c%d","url":"https://example.com/","comment":%q}],"cursor":"%[1]d"}`,
				n, strings.Repeat("x", 100<<10))
		}))
		if endless.Status != task.Failed || endless.Failure().Kind != errs.InvalidInput {
			t.Errorf("an endless API: %s, %v", endless.Status, endless.Failure())
		}
		var links []string
		for i := range 4 {
			links = append(links, fmt.Sprintf(`{"slug":"c%d","url":"https://example.com/%[1]d","comment":%q}`, i,
				strings.Repeat("x", 700<<10)))
		}
		large := b.run(t, b.importSink(t, func(int) (int, http.Header, string) {
			return http.StatusOK, nil, `{"version":"1.0","links":[` + strings.Join(links, ",") +
				`],"list_complete":true}`
		}))
		var most int64
		must.NoError(t,
			b.db.NewSelect().Table("task_chunks").ColumnExpr("max(length(bytes))").Where("task_id = ?", large.ID).
				Scan(db.AsSystem(t.Context()), &most))
		if large.Status != task.Succeeded || large.Done != 4 || most > task.ChunkSize {
			t.Errorf("%s, %d rows, a chunk of %d bytes: %v", large.Status, large.Done, most, large.Failure())
		}
	})
}

// TestImport_ResumesWithinAPage: an import that has to wait between two requests for one page does
// not send those before again, and leaves its slot to others.
func TestImport_ResumesWithinAPage(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var requests []string
		refused := false
		b.Import.Client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			requests = append(requests, r.URL.Path)
			status, header, body := http.StatusOK, http.Header{}, `{"countries":[]}`
			switch {
			case r.URL.Path == "/api/domains":
				body = `[{"id":1,"hostname":"a.example"}]`
			case r.URL.Path == "/api/links":
				body = `{"links":[{"idString":"l1","path":"a","originalURL":"https://example.com/a","DomainId":1},` +
					`{"idString":"l2","path":"b","originalURL":"https://example.com/b","DomainId":1},` +
					`{"idString":"l3","path":"c","originalURL":"https://example.com/c","DomainId":1}]}`
			case r.URL.Path == "/link_country/l3" && !refused:
				refused, status, body = true, http.StatusTooManyRequests, ""
				header.Set("Retry-After", "1800")
			default:
				body = "[]"
			}
			return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}
		started := must.Value(b.Import.Create(t.Context(), b.Mine, importer.Settings{
			Source: importsource.ShortIO, OnConflict: importer.Skip, DryRun: true,
			API: &importer.API{Token: "token"},
		}))(t)
		paused := b.runUntil(t, started, func(now *task.Task) bool {
			return now.Status == task.Queued && now.DueAt.Equal(db.Instant(b.Now.Add(30*time.Minute)))
		})
		b.Now = paused.DueAt
		ended := b.run(t, started)
		if ended.Status != task.Succeeded || ended.Done != 3 {
			t.Errorf("%s, %d rows: %v", ended.Status, ended.Done, ended.Failure())
		}
		for _, once := range []string{"/link_country/l1", "/link_country/l2"} {
			if n := strings.Count(strings.Join(requests, " "), once); n != 1 {
				t.Errorf("%d requests of %s: %v", n, once, requests)
			}
		}
		if strings.Contains(b.dump(t), `"answers"`) {
			t.Error("the cursor still has responses of the page")
		}
	})
}
