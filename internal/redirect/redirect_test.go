package redirect

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/workspace"
)

// bundle is a redirect handler, and a workspace to make links in. Its clock begins now, because Redis has its own.
type bundle struct {
	*Handler
	mux    *http.ServeMux
	now    time.Time
	mine   workspace.Membership
	me     string
	closed func()
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{now: db.Instant(time.Now()), mux: http.NewServeMux()}
	clock := func() time.Time { return b.now }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	links, err := link.NewStore(link.Config{DB: d, PublicURL: "http://sho.rt", LinkQuota: 100, Log: log, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Handler = &Handler{
		Links: links, Hits: quota.Hits{KV: dbtest.Redis(t, "")}, HitQuota: 5,
		Clicks: click.NewRecorder(d, log), Counts: &click.Store{DB: d, Now: clock}, Log: log, Now: clock,
	}
	b.mux.Handle("GET /{code}", b.Handler)
	b.mux.Handle("GET /{slug}/{code}", b.Handler)
	b.closed = record(t, b.Clicks)
	b.me = id.New(id.Account)
	a := account.Account{ID: b.me, Email: "ada@example.com", Name: "Ada", CreatedAt: b.now, UpdatedAt: b.now}
	if _, err := d.NewInsert().Model(&a).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	workspaces := workspace.Store{DB: d, Now: clock}
	if b.mine, err = workspaces.Create(t.Context(), account.Actor{AccountID: b.me}, "Ada", "ada"); err != nil {
		t.Fatal(err)
	}
	return b
}

// record runs the recorder; the function it returns ends it.
func record(t *testing.T, r *click.Recorder) func() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop := func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func (b *bundle) link(t *testing.T, in link.New) *link.Link {
	t.Helper()
	l, _, err := b.Links.Create(t.Context(), b.mine, b.me, in)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (b *bundle) visit(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

func (b *bundle) clicks(t *testing.T, l *link.Link) int64 {
	t.Helper()
	if err := b.Clicks.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	totals, err := b.Counts.Totals(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	return totals[l.ID].Clicks
}

// TestWhatEachStateAnswers goes through DESIGN's table of a link's life, at the instants where it changes.
func TestWhatEachStateAnswers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		start, end := b.now.Add(time.Hour), b.now.Add(2*time.Hour)
		timed := b.link(t, link.New{URL: "https://example.com/timed", StartsAt: &start, ExpiresAt: &end})
		deleted := b.link(t, link.New{URL: "https://example.com/deleted"})
		if _, err := b.Links.Delete(t.Context(), b.mine, deleted.ID); err != nil {
			t.Fatal(err)
		}
		disabled := b.link(t, link.New{URL: "https://example.com/disabled"})
		if _, err := d.NewUpdate().Model(disabled).Set("disabled_at = ?", b.now).WherePK().Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			at     time.Time
			code   string
			status int
		}{
			{"scheduled", start.Add(-time.Microsecond), timed.Code, 404},
			{"at its start", start, timed.Code, 302},
			{"at its last instant", end.Add(-time.Microsecond), timed.Code, 302},
			{"expired", end, timed.Code, 410},
			{"deleted", start, deleted.Code, 404},
			{"disabled", start, disabled.Code, 410},
			{"unknown", start, "unknown", 404},
			{"no code", start, "a", 404},
		} {
			b.now = c.at
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				w := b.visit(t, method, "/"+c.code)
				location := w.Header().Get("Location")
				if w.Code != c.status || (location != "") != (c.status == 302) {
					t.Errorf("%s, %s: %d to %q, want %d", c.name, method, w.Code, location, c.status)
				}
			}
		}
		if got := b.clicks(t, timed); got != 2 {
			t.Errorf("%d clicks, want the 2 GETs that were redirected", got)
		}
	})
}

func TestARedirectLeadsToTheURLAsItWasGiven(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		status := 308
		for given, want := range map[string]string{
			"HTTP://Example.COM:80/a//b/?z=1&a=2#x": "HTTP://Example.COM:80/a//b/?z=1&a=2#x",
			" https://example.com/é b ":             "https://example.com/%C3%A9%20b",
		} {
			l := b.link(t, link.New{URL: given, RedirectStatus: &status})
			w := b.visit(t, http.MethodGet, "/"+l.Code)
			want := http.Header{
				"Location":        {want},
				"Cache-Control":   {"private, no-store"},
				"Referrer-Policy": {"strict-origin-when-cross-origin"},
				"X-Robots-Tag":    {"noindex"},
				"Content-Length":  {"0"},
			}
			if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != 308 || w.Body.Len() > 0 {
				t.Errorf("%s: %d, headers (-want +got):\n%s", given, w.Code, diff)
			}
		}
	})
}

func TestTheMonthlyQuota(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l := b.link(t, link.New{URL: "https://example.com/"})
		var mu sync.Mutex
		got := map[int]int{}
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				w := b.visit(t, http.MethodGet, "/"+l.Code)
				mu.Lock()
				defer mu.Unlock()
				got[w.Code]++
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[int]int{302: 5, 429: 35}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if n := b.clicks(t, l); n != 5 {
			t.Errorf("%d clicks, want 5", n)
		}
		if w := b.visit(t, http.MethodHead, "/"+l.Code); w.Code != 302 {
			t.Errorf("HEAD takes no quota, and answers %d", w.Code)
		}
		// The counter is lost: the database knows the clicks.
		if err := b.Hits.KV.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		w := b.visit(t, http.MethodGet, "/"+l.Code)
		month := quota.MonthOf(b.now)
		if w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("after the loss: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		b.now = month.End
		if w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code != 302 {
			t.Errorf("in the next month: %d", w.Code)
		}
	})
}

func TestAWorkspaceMayHaveAQuotaOfItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l := b.link(t, link.New{URL: "https://example.com/"})
		_, err := d.NewUpdate().Model((*workspace.Workspace)(nil)).Set("hit_quota = 1").Where("id = ?", b.mine.ID()).Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{302, 429} {
			if w := b.visit(t, http.MethodGet, "/ada/"+l.Code); w.Code != want {
				t.Errorf("visit %d: %d, want %d", i, w.Code, want)
			}
		}
	})
}

func TestAClickThatCannotBeCountedIsNotAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	l := b.link(t, link.New{URL: "https://example.com/"})
	b.visit(t, http.MethodGet, "/"+l.Code)
	b.closed()
	w := b.visit(t, http.MethodGet, "/"+l.Code)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Location") != "" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	used, err := b.Hits.Used(t.Context(), []string{l.ID}, quota.MonthOf(b.now))
	if err != nil || used[l.ID] != 1 {
		t.Errorf("%d hits used, want the one that was answered: %v", used[l.ID], err)
	}
}

func TestWhenSomethingIsAway(t *testing.T) {
	t.Parallel()
	d := dbtest.Migrated(t, dbtest.SQLite(t))
	b := setup(t, d)
	l := b.link(t, link.New{URL: "https://example.com/"})
	if err := b.Hits.KV.Close(); err != nil {
		t.Fatal(err)
	}
	if w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" {
		t.Errorf("without Redis: %d", w.Code)
	}
	b.closed()
	if _, err := d.ExecContext(t.Context(), "ALTER TABLE links RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	w := b.visit(t, http.MethodGet, "/"+l.Code)
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "links") {
		t.Errorf("without a database: %d %s", w.Code, w.Body)
	}
}
