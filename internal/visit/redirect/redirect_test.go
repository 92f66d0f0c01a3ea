package redirect

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
)

// bundle is a redirect handler with a workspace. Its clock starts at the present time, because
// Redis has its own clock.
type bundle struct {
	*Handler
	links  *creation.Store
	edit   *edit.Store
	redis  *redisx.Client
	counts *clicksql.Store
	mux    *http.ServeMux
	now    time.Time
	clock  atomic.Int64 // now, for concurrent readers
	ahead  atomic.Int64 // nanoseconds that the clock is ahead of now
	mine   workspace.Membership
	me     string
	closed func()
}

func setup(t testing.TB, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{now: db.Instant(time.Now()), mux: http.NewServeMux()}
	b.turnTo(b.now)
	clock := func() time.Time { return time.Unix(0, b.clock.Load()+b.ahead.Load()).UTC() }
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	redis, clickLog := dbtest.Redis(t, ""), clicktest.OpenLog(t, clock)
	quotas := hitquota.New(hitquota.Config{
		ClickLog: clickLog, Clicks: &clickstore.Ledger{DB: d}, DB: d, Log: log, Now: clock,
	})
	must.NoError(t, quotas.Hits.Carry(t.Context(), clicktest.NoLogs))
	clicks := clicktest.WithLeases(d, clickLog, quotas.Hits)
	b.redis, b.counts = redis, clicks.Store
	links := must.Value(link.NewStore(link.Config{
		DB: d, Feed: feed.New(d, log, clock), PublicURL: "http://sho.rt", Clicks: clicks, Log: log, Now: clock,
	}))(t)
	must.NoError(t, links.Feed.CatchUp(t.Context()))
	quota := &link.Quota{DB: d, Default: 100, Now: clock}
	b.links = creation.NewStore(creation.Config{
		Links: links, Quota: quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: 8 * time.Hour,
		Limits: ratelimit.New(redis, log, time.Now),
	})
	b.edit = &edit.Store{Store: links, Quota: quota}
	b.Handler = &Handler{
		Resolver: links.Resolver, Quotas: quotas, HitQuota: 5, Clicks: clicks.Recorder,
		Visits: visitor.NewReader(nil), Keys: &ingest.DailyKeys{DB: d, Log: log, Now: clock},
		Unmatched: &unmatched.Recorder{DB: d, Log: log, Now: clock}, Log: log, Now: clock,
	}
	b.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		at, _ := resolve.PathAddress(r.URL, true)
		b.Serve(w, r, at)
	})
	b.closed = clicktest.Run(t, clicks.Recorder, quotas)
	b.mine = workspacetest.New(t, d, "ada")
	b.me = b.mine.AccountID()
	return b
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle, d *db.DB)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d), d) })
}

// turnTo sets the clock.
func (b *bundle) turnTo(now time.Time) {
	b.now = now
	b.clock.Store(now.UnixNano())
}

func (b *bundle) link(t testing.TB, in creation.Input) *link.Link {
	t.Helper()
	l, _, err := b.links.Create(t.Context(), b.mine, in)
	must.NoError(t, err)
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
	must.NoError(t, b.Handler.Clicks.Flush(t.Context()))
	totals := must.Value((&clickstore.Ledger{DB: b.counts.DB}).
		Totals(must.Value(l.In.Enter(t.Context(), workspace.ReadLinks))(t), l.In.ID(), l.ID))(t)
	return totals[l.ID].Clicks
}

// TestHandler_AnswersByStatus goes through DESIGN's table of a link's life, at the instants where
// it changes, by each verb.
func TestHandler_AnswersByStatus(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		start, end, two, five := b.now.Add(time.Hour), b.now.Add(2*time.Hour), int64(2), int64(5)
		timed := b.link(t, creation.Input{URL: "https://example.com/timed",
			Fields: linkfield.Change{StartsAt: optional.Set(&start), ExpiresAt: optional.Set(&end)}})
		limited := b.link(t, creation.Input{URL: "https://example.com/limited",
			Fields: linkfield.Change{MaxClicks: optional.Set(&two)}})
		popular := b.link(t, creation.Input{URL: "https://example.com/popular"})
		ample := b.link(t, creation.Input{URL: "https://example.com/ample",
			Fields: linkfield.Change{MaxClicks: optional.Set(&five), RedirectStatus: optional.Set(307)}})
		deleted := b.link(t, creation.Input{URL: "https://example.com/deleted"})
		must.Value(b.edit.Delete(t.Context(), b.mine, deleted.ID))(t)
		disabled := b.link(t, creation.Input{URL: "https://example.com/disabled"})
		must.Value(d.NewUpdate().Model(disabled).Set("disabled_at = ?", b.now).WherePK().
			Exec(db.AsSystem(t.Context())))(t)
		anonymous, _, err := b.links.CreateAnonymous(t.Context(), "192.0.2.1", "https://example.com/anonymous")
		must.NoError(t, err)
		b.turnTo(start)
		for range 5 {
			b.visit(t, http.MethodGet, "/"+popular.Code)
		}
		for _, c := range []struct {
			name   string
			at     time.Time
			code   string
			get    int
			head   int
			silent bool // HEAD gets no Location
		}{
			{"scheduled", start.Add(-time.Microsecond), timed.Code, 404, 404, false},
			{"at its start", start, timed.Code, 302, 302, false},
			{"at its last instant", end.Add(-time.Microsecond), timed.Code, 302, 302, false},
			{"expired", end, timed.Code, 410, 410, false},
			{"anonymous, at its last instant", anonymous.ExpiresAt.Add(-time.Microsecond), anonymous.Code, 302, 302,
				false},
			{"anonymous, expired", *anonymous.ExpiresAt, anonymous.Code, 410, 410, false},
			{"limited, the first time", start, limited.Code, 302, 302, true},
			{"limited, the last time", start, limited.Code, 302, 410, false},
			{"exhausted", start, limited.Code, 410, 410, false},
			{"limited, with a status of its own", start, ample.Code, 307, 307, true},
			{"over its monthly quota", start, popular.Code, 429, 302, false},
			{"deleted", start, deleted.Code, 404, 404, false},
			{"disabled", start, disabled.Code, 410, 410, false},
			{"unknown", start, "unknown", 404, 404, false},
			{"no code", start, "a", 404, 404, false},
		} {
			b.turnTo(c.at)
			b.expect(t, c.name, http.MethodGet, c.code, c.get, c.get/100 == 3)
			b.expect(t, c.name, http.MethodHead, c.code, c.head, c.head/100 == 3 && !c.silent)
		}
		for l, want := range map[*link.Link]int64{timed: 2, limited: 2, popular: 5, ample: 1, deleted: 0, disabled: 0,
			anonymous: 1} {
			if got := b.clicks(t, l); got != want {
				t.Errorf("%d clicks of %s, want the %d GETs that were redirected", got, l.OriginalURL, want)
			}
		}
	})
}

// expect visits a code, and checks its answer's status and whether it says where the link leads.
func (b *bundle) expect(t *testing.T, name, method, code string, status int, leads bool) {
	t.Helper()
	w := b.visit(t, method, "/"+code)
	if location := w.Header().Get("Location"); w.Code != status || (location != "") != leads {
		t.Errorf("%s, %s: %d to %q, want %d", name, method, w.Code, location, status)
	}
	if retry := w.Header().Get("Retry-After"); (retry != "") != (status == http.StatusTooManyRequests) {
		t.Errorf("%s, %s: %d with Retry-After %q", name, method, w.Code, retry)
	}
}

// TestHandler_RefusedVisitorsConsumeNothing follows links with both limits by many visitors at
// once, until the smaller one is reached and beyond. Every unit that was taken for a visitor who
// received no destination is available again.
func TestHandler_RefusedVisitorsConsumeNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		hitQuota      int64
		want          map[int]int // responses to 200 visitors
		raisedQuota   int64
		statusAfter   int
		clicks, inAll int64 // at first, and after one more visitor under the raised quota
	}{
		{"maxClicks is smaller", 12, map[int]int{302: 10, 410: 190}, 100, 410, 10, 10},
		{"both are equal", 10, map[int]int{302: 10, 410: 190}, 100, 410, 10, 10},
		{"the monthly quota is smaller", 6, map[int]int{302: 6, 429: 194}, 100, 302, 6, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				b.HitQuota = c.hitQuota
				ten := int64(10)
				l := b.link(t, creation.Input{URL: "https://example.com/",
					Fields: linkfield.Change{MaxClicks: optional.Set(&ten)}})
				got := b.visitAtOnce(t, l, 200)
				if diff := cmp.Diff(c.want, got); diff != "" || b.clicks(t, l) != c.clicks {
					t.Errorf("%d clicks, want %d; responses (-want +got):\n%s", b.clicks(t, l), c.clicks, diff)
				}
				if last := b.visit(t, http.MethodGet, "/"+l.Code).Code; last/100 != 4 ||
					(last == 410) != (c.want[410] > 0) {
					t.Errorf("status %d after the last click", last)
				}
				b.HitQuota = c.raisedQuota
				status := 0 // released grants are available again within a second
				for deadline := time.Now().Add(20 * time.Second); status != c.statusAfter &&
					time.Now().Before(deadline); {
					b.turnTo(b.now.Add(time.Second))
					status = b.visit(t, http.MethodGet, "/"+l.Code).Code
					_ = poll.Wait(t.Context(), 20*time.Millisecond)
				}
				if status != c.statusAfter {
					t.Errorf("status %d under the raised quota, want %d", status, c.statusAfter)
				}
				b.closed()
				granted := int64(0)
				must.NoError(t, d.NewSelect().Table("grants").Column("granted").Where("subject_id = ?", l.ID).
					Scan(db.AsSystem(t.Context()), &granted))
				used := must.Value(b.Quotas.Hits.Used(t.Context(), click.MonthOf(b.now), l.ID))(t)
				if used[l.ID] != c.inAll || granted != c.inAll {
					t.Errorf("%d monthly hits and %d grants are used, want %d of each", used[l.ID], granted, c.inAll)
				}
			})
		})
	}
}

// TestHandler_EndedLinkIsGone has two visitors of a link with one hit and one click left. The first
// one has the hit and waits for its grant when the second one is refused: the link has ended for
// that one too.
func TestHandler_EndedLinkIsGone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		b.HitQuota = 1
		l := b.link(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(1)))}})
		locked, unlock := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.NewUpdate().Table("grants").Set("granted = granted").Where("subject_id = ?", l.ID).
					Exec(ctx)
				close(locked)
				<-unlock
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-locked
		all.Go(func() {
			if w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code != http.StatusFound {
				t.Errorf("the visitor with the hit gets %d", w.Code)
			}
		})
		polltest.Until(t, "the first visitor waits for a grant", func() bool {
			return b.Quotas.OutstandingGrants() == 1
		})
		refused := make(chan struct{})
		all.Go(func() {
			defer close(refused)
			b.expect(t, "without a hit", http.MethodGet, l.Code, http.StatusGone, false)
		})
		select {
		case <-refused: // before the link has ended
		case <-time.After(2 * otherNodes):
		}
		close(unlock)
		all.Wait()
	})
}

// visitAtOnce sends concurrent requests for a link, and counts the responses by status.
func (b *bundle) visitAtOnce(t *testing.T, l *link.Link, visitors int) map[int]int {
	t.Helper()
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for range visitors {
		all.Go(func() {
			w := b.visit(t, http.MethodGet, "/"+l.Code)
			mu.Lock()
			defer mu.Unlock()
			got[w.Code]++
		})
	}
	all.Wait()
	return got
}

func TestHandler_RedirectsToTheOriginalURL(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, _ *db.DB) {
		status := 308
		for given, want := range map[string]string{
			"HTTP://Example.COM:80/a//b/?z=1&a=2#x": "HTTP://Example.COM:80/a//b/?z=1&a=2#x",
			" https://example.com/é b ":             "https://example.com/%C3%A9%20b",
		} {
			l := b.link(t, creation.Input{URL: given, Fields: linkfield.Change{RedirectStatus: optional.Set(status)}})
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

// TestHandler_ComparesWholeAddresses has a rule for one IPv6 address, and visitors of the same
// network.
func TestHandler_ComparesWholeAddresses(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	l := b.link(t,
		creation.Input{URL: "https://example.com/own",
			Fields: linkfield.Change{Routing: optional.Set(&routing.Change{Rules: optional.Set([]*routing.Rule{{
				When:    []*routing.Condition{{Network: []string{"2001:db8::1"}}},
				Targets: []*routing.Target{{URL: new("https://example.com/office")}},
			}})})}})
	for address, want := range map[string]string{
		"[2001:db8::1]:1": "https://example.com/office", "[2001:db8::2]:1": "https://example.com/own",
		"[2001:db8::]:1": "https://example.com/own",
	} {
		if got := b.visitFrom(t, address, http.MethodGet, "/"+l.Code).Header().Get("Location"); got != want {
			t.Errorf("%s is redirected to %q, want %q", address, got, want)
		}
	}
}

// TestHandler_StartsANewQuotaWithTheMonth: each month has a quota of its own, and every click is in
// the month that it arrived in.
func TestHandler_StartsANewQuotaWithTheMonth(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		month := click.MonthOf(b.now)
		b.HitQuota = 200
		b.turnTo(month.End().Add(-time.Second))
		l := b.link(t, creation.Input{URL: "https://example.com/"})
		var visits, redirects atomic.Int64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 60 {
					if visits.Add(1) == 300 {
						b.ahead.Store(int64(2 * time.Second))
					}
					switch w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code {
					case http.StatusFound:
						redirects.Add(1)
					case http.StatusTooManyRequests:
					default:
						t.Errorf("%d", w.Code)
					}
				}
			})
		}
		all.Wait()
		// Unused hits of leases that were taken at the turn of the month are returned soon.
		polltest.Until(t, "they have come back", func() bool {
			b.ahead.Add(int64(20 * time.Millisecond))
			if w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code == http.StatusFound {
				redirects.Add(1)
			}
			return redirects.Load() >= 400
		})
		b.clicks(t, l)
		in := func(where string) (n int64) {
			t.Helper()
			must.NoError(t, d.NewSelect().Table("clicks").ColumnExpr("COUNT(*)").
				Where("link_id = ?", l.ID).Where(where, month.End()).Scan(db.AsSystem(t.Context()), &n))
			return n
		}
		before, after := in("clicked_at < ?"), in("clicked_at >= ?")
		if before != 200 || after != 200 || redirects.Load() != 400 {
			t.Errorf("%d clicks in the first month and %d in the second, want 200 each; %d redirects", before, after,
				redirects.Load())
		}
	})
}

func TestHandler_UsesTheQuotaOfTheWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		l := b.link(t, creation.Input{URL: "https://example.com/"})
		must.Value(d.NewUpdate().Model((*workspace.Workspace)(nil)).Set("hit_quota = 1").Where("id = ?", b.mine.ID()).
			Exec(db.AsSystem(t.Context())))(t)
		for i, want := range []int{302, 429} {
			if w := b.visit(t, http.MethodGet, "/ada/"+l.Code); w.Code != want {
				t.Errorf("visit %d: %d, want %d", i, w.Code, want)
			}
		}
	})
}

func TestHandler_RedirectsFromTheCacheWithoutADatabase(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	b := setup(t, d)
	l, unknown := b.link(t, creation.Input{URL: "https://example.com/"}), b.link(t,
		creation.Input{URL: "https://example.com/unknown"})
	b.visit(t, http.MethodGet, "/"+l.Code)
	b.clicks(t, l)
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE links RENAME TO elsewhere"))(t)
	if w := b.visit(t, http.MethodGet, "/"+l.Code); w.Code != 302 {
		t.Errorf("a link in memory: %d", w.Code)
	}
	w := b.visit(t, http.MethodGet, "/"+unknown.Code)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" ||
		strings.Contains(w.Body.String(), "links") {
		t.Errorf("a link that is not cached: %d %s", w.Code, w.Body)
	}
}

// TestHandler_RefusedHitTakesNoGrant: a visitor who gets no monthly hit changes no row, so a crash
// cannot leave a grant without a redirect. Links without any grant left respond 410 all the same.
func TestHandler_RefusedHitTakesNoGrant(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		d := dbtest.MigratedPostgres(t)
		b := setup(t, d)
		b.HitQuota = 2
		for most, want := range map[int64]int{2: http.StatusGone, 3: http.StatusTooManyRequests} {
			l := b.link(t, creation.Input{URL: fmt.Sprint("https://example.com/", most),
				Fields: linkfield.Change{MaxClicks: optional.Set(&most)}})
			for range b.HitQuota {
				b.expect(t, "before", http.MethodGet, l.Code, http.StatusFound, true)
			}
			dbtest.WhileLocked(t, d, "grants", "subject_id = '"+l.ID+"'", func(context.Context) {
				b.expect(t, fmt.Sprint("maxClicks ", most), http.MethodGet, l.Code, want, false)
			})
		}
		if got := b.Quotas.OutstandingGrants(); got != 0 {
			t.Errorf("%d grants are outstanding", got)
		}
	})
}
