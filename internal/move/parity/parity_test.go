package parity_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/parity"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// bundle is a workspace with imported links, and the hosts of their sources.
type bundle struct {
	*creationtest.World
	*parity.Store
	db *db.DB

	mu sync.Mutex
	// answers are those of the hosts by URL: a status and a Location. requests are all requested
	// URLs.
	answers  map[string]string
	requests []string
}

func newBundle(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{World: creationtest.New(t, d), db: d, answers: map[string]string{}}
	clock := func() time.Time { return b.World.Now }
	b.Store = &parity.Store{
		DB: d, Tasks: task.NewStore(d, secrets.Box{}, clock), Links: b.World.Links,
		Transport: b, Limits: ratelimit.Limiter{Off: true}, InstanceID: "this", UserAgent: "Bot", Now: clock,
	}
	return b
}

// RoundTrip implements http.RoundTripper.
func (b *bundle) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r.URL.String())
	answer, ok := b.answers[r.URL.String()]
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	var location string
	if _, err := fmt.Sscanf(answer, "%d %s", &response.StatusCode, &location); err != nil && location == "" &&
		response.StatusCode == 200 {
		response.Body = io.NopCloser(strings.NewReader(answer))
	}
	if location != "" {
		response.Header.Set("Location", location)
	}
	return response, nil
}

// imported creates a link with the code as if it was imported from a short URL.
func (b *bundle) imported(t *testing.T, code, sourceURL string) {
	t.Helper()
	l := b.Make(t, creationtest.Custom("https://example.com/"+code, code))
	origin := &importer.Origin{WorkspaceID: b.Mine.ID(), Source: importsource.CSV, SourceID: code, LinkID: l.ID,
		SourceURL: &sourceURL,
		Hash:      []byte("h"), ImportedAt: b.World.Now}
	must.Value(b.db.NewInsert().Model(origin).Exec(db.AsSystem(t.Context())))(t)
}

// check runs a check to its end.
func (b *bundle) check(t *testing.T, in parity.Settings) *task.Task {
	t.Helper()
	started := must.Value(b.Store.Create(t.Context(), b.Mine, in))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := &task.Runner{
		Store: b.Tasks, Slots: 1, Handlers: map[task.Kind]task.Handler{task.ParityCheck: b.Store},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		MemberOf: func(context.Context, *task.Task) (workspace.Membership, error) { return b.Mine, nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	polltest.Until(t, "the check ends", func() bool {
		started = must.Value(b.Tasks.ByID(t.Context(), b.Mine, started.ID))(t)[0]
		return started.FinishedAt != nil
	})
	stop()
	must.NoError(t, <-ended)
	return started
}

// said describes the comparisons with all verdicts.
func (b *bundle) said(t *testing.T, of *task.Task) (all []string) {
	t.Helper()
	every := []parity.Verdict{
		parity.Same, parity.DifferentStatus, parity.DifferentDestination, parity.MissingThere, parity.MissingHere,
		parity.Gated,
		parity.AlreadyMoved, parity.Unreachable,
	}
	p := must.Value(b.Rows(t.Context(), of, every, page.Request{Order: task.RowOrder, Size: 100}))(t)
	for _, row := range p.Items {
		all = append(all, row.SourceURL+" "+string(row.Verdict))
	}
	return all
}

// TestCheck_ComparesEachOrigin requests each short URL once, and each host once for its instance.
func TestCheck_ComparesEachOrigin(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		for code, answer := range map[string]string{
			"a-same": "302 https://example.com/a-same", "b-status": "301 https://example.com/b-status",
			"c-other": "302 https://example.com/x",
			"d-gone":  "404", "e-page": "200", "f-silent": "", "h-rate": "429",
			"i-latin": "302 https://example.com/?q=M\xfcnchen", "j-malformed": "302 https://example.com/50%-off",
		} {
			b.imported(t, code, "https://old.example/"+code)
			if answer != "" {
				b.answers["https://old.example/"+code] = answer
			}
		}
		b.imported(t, "g-moved", "https://moved.example/g")
		b.answers["https://moved.example/.well-known/linkforge"] = "this"
		b.answers["https://old.example/.well-known/linkforge"] = "404"
		checked := b.check(t, parity.Settings{})
		want := []string{
			"https://old.example/a-same SAME", "https://old.example/b-status DIFFERENT_STATUS",
			"https://old.example/c-other DIFFERENT_DESTINATION",
			"https://old.example/d-gone MISSING_THERE", "https://old.example/e-page GATED",
			"https://old.example/f-silent UNREACHABLE",
			"https://moved.example/g ALREADY_MOVED", "https://old.example/h-rate UNREACHABLE",
			"https://old.example/i-latin DIFFERENT_DESTINATION",
			"https://old.example/j-malformed DIFFERENT_DESTINATION",
		}
		if diff := cmp.Diff(want, b.said(t, checked)); diff != "" || checked.Status != task.Succeeded ||
			checked.Done != 10 || *checked.Total != 10 {
			t.Errorf("%s, %d of %v (-want +got):\n%s", checked.Status, checked.Done, checked.Total, diff)
		}
		sum := int64(0)
		for _, c := range must.Value(parity.ReportOf(checked))(t).Counts() {
			sum += c.Links
		}
		if sum != checked.Done || len(b.requests) != 2+8+3 {
			t.Errorf("%d are counted of %d; requests %q", sum, checked.Done, b.requests)
		}
	})
}

// TestCheck_ChoosesTheSameSample in each check, of the requested size.
func TestCheck_ChoosesTheSameSample(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBundle(t, d)
		for i := range 60 {
			b.imported(t, fmt.Sprint("code-", i), fmt.Sprint("https://old.example/", i))
		}
		first := b.check(t, parity.Settings{Sample: 25})
		second := b.check(t, parity.Settings{Sample: 25})
		if diff := cmp.Diff(b.said(t, first), b.said(t, second)); diff != "" || first.Done != 25 ||
			len(b.said(t, first)) != 25 {
			t.Errorf("%d comparisons; the second check differs (-first +second):\n%s", first.Done, diff)
		}
		if all := b.check(t, parity.Settings{Sample: 100}); all.Done != 60 {
			t.Errorf("%d comparisons of 60", all.Done)
		}
		if _, err := b.Store.Create(t.Context(), b.Mine, parity.Settings{ImportID: first.ID}); !errs.Is(err,
			errs.Conflict) {
			t.Errorf("a check of a check: %v", err)
		}
	})
}
