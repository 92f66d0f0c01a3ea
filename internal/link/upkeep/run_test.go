package upkeep

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
)

func TestRun_PacesRequestsToAHost(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		for _, path := range []string{"/200", "/404", "/405-200", "/201"} {
			b.linkTo(t, "a", path)
		}
		b.link(t, "http://A"+strings.ToUpper(outboundtest.PublicName)+":"+b.net.Port+"/202")
		b.run(t)
		events, requests := b.takeEvents(), 0
		for i, event := range events {
			if (i%2 == 1) != (event == "sleep 1s") {
				t.Errorf("no sleep between two requests: %s", events)
				break
			}
			requests += (i + 1) % 2
		}
		if requests != 7 {
			t.Errorf("got %d requests, want 7: %s", requests, events)
		}
	})
}

// TestRun_ChecksHostsConcurrently: hosts respond only after the maximum number of concurrent
// requests has arrived, and no other has followed within a moment.
func TestRun_ChecksHostsConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const hosts, moment = 3 * atOnce, 100 * time.Millisecond
		var checking, most atomic.Int64
		var once sync.Once
		full := make(chan struct{})
		b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
			defer checking.Add(-1)
			if checking.Add(1) == atOnce {
				once.Do(func() {
					time.AfterFunc(moment, func() {
						most.Store(checking.Load())
						close(full)
					})
				})
			}
			select {
			case <-full:
			case <-r.Context().Done():
			}
		}, nil)
		b.allow(b.net.Allow, 2*time.Second)
		for i := range hosts {
			b.linkTo(t, fmt.Sprint(i), "/")
		}
		b.run(t)
		if requests := len(b.takeEvents()); most.Load() != atOnce || requests != hosts {
			t.Errorf("%d hosts at once, %d in all; want %d and %d", most.Load(), requests, atOnce, hosts)
		}
	})
}

// TestRun_SlowHostDelaysNoOther has more links to one host than a batch checks.
func TestRun_SlowHostDelaysNoOther(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	requests := map[string]int{}
	b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) { requests[r.URL.Path]++ }, nil)
	for i := range perHost + 5 {
		b.linkTo(t, "a", fmt.Sprintf("/%d", i))
	}
	for _, want := range []int{perHost, perHost, perHost + 5} {
		b.run(t)
		if len(requests) != want {
			t.Errorf("%d paths requested, want %d", len(requests), want)
		}
		b.world.Now = b.world.Now.Add(CheckLease / 2)
	}
	for path, times := range requests {
		if times != 1 {
			t.Errorf("%s was requested %d times, want once", path, times)
		}
	}
}

// TestRun_GoesRoundOverAccounts: who has more due destinations than a batch takes waits for all others.
func TestRun_GoesRoundOverAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := make([]*creation.Input, checkBatch)
		for i := range in {
			in[i] = &creation.Input{URL: fmt.Sprintf("https://%d.example.com/", i)}
		}
		b.MakeMany(t, link.AllOrNothing, in...)
		b.Now = noon.Add(time.Hour)
		b.Make(t, creation.Input{URL: "https://example.com/1"})
		b.Make(t, creation.Input{URL: "https://example.com/2"})
		b.Now = noon.Add(2 * time.Hour)
		_, _, err := b.Create(t.Context(), b.Foreign, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{Routing: optional.Set(routingTo("target", "ended", "pending"))}})
		must.NoError(t, err)
		r := &run{Checker: &Checker{Links: b.Store}, turns: map[string]int{}, waiting: map[string]bool{}}
		for _, want := range []map[string]int{
			{b.Mine.ID(): perAccount, b.Foreign.ID(): 3}, {b.Foreign.ID(): 1}, {b.Mine.ID(): 5}, {},
		} {
			got := map[string]int{}
			for _, d := range must.Value(r.next(t.Context()))(t) {
				got[d.WorkspaceID]++
			}
			wanttest.Equal(t, want, got, "destinations of a batch by workspace")
		}
	})
}

// TestRun_RestsHosts that are busy or unreachable: the run meets them once.
func TestRun_RestsHosts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "busy") {
				w.Header().Set("Retry-After", "7200")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, map[string][][]string{"gone.test": {{outboundtest.Silent}}})
		busy, gone := b.net.URL("busy"+outboundtest.PublicName, "/busy"), b.net.URL("gone.test", "/")
		idle := b.linkTo(t, "idle", "/idle")
		var links []*link.Link
		for range 3 {
			links = append(links, b.link(t, busy), b.link(t, gone))
		}
		b.run(t)
		results := map[string]int{outcome(b.world.Reload(t, idle)): 1}
		for _, l := range links {
			got, rest := b.world.Reload(t, l), time.Hour
			if results[outcome(got)]++; got.OriginalURL == busy {
				rest = 2 * time.Hour
			}
			if !got.CheckAt.Equal(noon.Add(rest)) {
				t.Errorf("%s said %s, due again %s", got.OriginalURL, outcome(got), got.CheckAt)
			}
		}
		wanttest.Equal(t, map[string]int{"200": 1, "503": 1, "nothing": 1, "not requested": 4}, results, "outcomes")
		if requests, lookups := len(b.takeEvents()), b.net.Lookups("gone.test"); requests != 2 || lookups != 1 {
			t.Errorf("%d requests and sleeps, want one request to either host; %d look-ups", requests, lookups)
		}
	})
}

func TestRun_FollowsRetryAfter(t *testing.T) {
	t.Parallel()
	c := &Checker{Now: func() time.Time { return noon }}
	for _, test := range []struct {
		status int
		wish   string
		want   time.Duration
	}{
		{429, "3600", time.Hour},
		{503, "3600", time.Hour},
		{503, "Fri, 20 Nov 2026 14:00:00 GMT", 2 * time.Hour},
		{503, "Thu, 19 Nov 2026 14:00:00 GMT", minPause},
		{429, "0", minPause},
		{429, "1", minPause},
		{429, "999999999", maxPause},
		{429, "", defaultPause},
		{429, "-1", defaultPause},
		{429, "99999999999999999999999999", defaultPause},
		{429, "soon", defaultPause},
		{503, "soon", defaultPause},
		{503, "", 0},
		{500, "3600", 0},
		{301, "3600", 0},
		{200, "3600", 0},
	} {
		t.Run(fmt.Sprintf("%d %q", test.status, test.wish), func(t *testing.T) {
			r := &http.Response{StatusCode: test.status, Header: http.Header{"Retry-After": {test.wish}}}
			if got := c.restWished(r); got != test.want {
				t.Errorf("%d, Retry-After: %q: %s, want %s", test.status, test.wish, got, test.want)
			}
		})
	}
}

func TestRun_ChecksOnceConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var mu sync.Mutex
		requests := map[string]int{}
		b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			requests[r.URL.Path]++
		}, nil)
		const links = 100
		for i := range links {
			b.linkTo(t, fmt.Sprint(i%10), fmt.Sprintf("/%d", i))
		}
		got := linktest.AtOnce(4, func(int) string { return linktest.KindOf(b.Run(t.Context())) })
		wanttest.Equal(t, map[string]int{"": 4}, got, "errors")
		for path, times := range requests {
			if times != 1 {
				t.Errorf("%s was requested %d times, want once", path, times)
			}
		}
		if len(requests) != links {
			t.Errorf("%d paths requested, want %d", len(requests), links)
		}
	})
}

// TestRun_ChecksRoutings checks the URLs of a link's rules with the job, after a member's request
// too.
func TestRun_ChecksRoutings(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		target := b.net.URL("a"+outboundtest.PublicName, "/404")
		l := b.world.Make(t, creation.Input{URL: b.net.URL("b"+outboundtest.PublicName, "/200"),
			Fields: linkfield.Change{Routing: optional.Set(&routing.Change{
				Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: &target}}}}),
			})}})
		state := func() string {
			checks := must.Value(b.Links.RoutingChecks(t.Context(), b.world.Mine, l.ID))(t)
			own, target := b.world.Reload(t, l).Checks(checks[l.ID])[0], b.world.Reload(t, l).Checks(checks[l.ID])[1]
			return fmt.Sprintf("%s %s after %d failures", own.State(), target.State(), target.CheckFailures)
		}
		for _, want := range []string{"OK BROKEN after 1 failures", "OK BROKEN after 2 failures"} {
			b.run(t)
			if got := state(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			b.check(t, l)
		}
	})
}

// TestRun_DoubtsClocksThatWereAhead: a check of a working URL is at most a day away.
func TestRun_DoubtsClocksThatWereAhead(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		for path, ahead := range map[string]time.Duration{"/200": 24 * time.Hour, "/201": 24*time.Hour + 2*db.MaxSkew} {
			b.linkTo(t, "a", path)
			must.Value(b.Links.DB.NewUpdate().Table("links").Set("check_at = ?", b.world.Now.Add(ahead)).
				Where("original_url LIKE ?", "%"+path).Exec(db.AsSystem(t.Context())))(t)
		}
		b.run(t)
		if got := b.takeEvents(); len(got) != 1 || !strings.Contains(got[0], "/201") ||
			!strings.Contains(b.logged.String(), "clock") {
			t.Errorf("checked %v, want the URL that was postponed by more than a day", got)
		}
	})
}

// eventsOf returns the actions of the events about the link's destination.
func (b *checks) eventsOf(t *testing.T, l *link.Link) (actions []string) {
	t.Helper()
	must.NoError(t, b.Links.DB.NewSelect().Model((*audit.Event)(nil)).Column("action").Where("target_id = ?", l.ID).
		Where("action LIKE 'DESTINATION_%'").Order("seq").Scan(db.AsSystem(t.Context()), &actions))
	return actions
}

// TestRun_WritesNoEventsWithoutNetwork: when most hosts fall silent, the fault is the server's own
// network. It is, until a host responds. Then the events of hosts that still fail are written, also
// if no other is due.
func TestRun_WritesNoEventsWithoutNetwork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var down sync.Map
		b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
			host, _, _ := strings.Cut(r.Host, ".")
			if _, isDown := down.Load(host[:1]); isDown {
				panic(http.ErrAbortHandler)
			}
		}, nil)
		var links []*link.Link
		for i := range 4 {
			links = append(links, b.linkTo(t, fmt.Sprint(i), "/"))
			down.Store(fmt.Sprint(i), true)
		}
		for _, step := range []struct {
			name string
			due  []int
			up   string
			want []int
		}{
			{"one host fails", []int{0}, "", []int{0, 0, 0, 0}},
			{"two more fall silent", []int{0, 1, 2}, "", []int{0, 0, 0, 0}},
			{"the same again", []int{0, 1, 2}, "", []int{0, 0, 0, 0}},
			{"another one responds", []int{3}, "3", []int{0, 0, 0, 0}},
			{"two are due together", []int{0, 1}, "", []int{1, 1, 0, 0}},
			{"one recovers", []int{1, 2}, "1", []int{1, 2, 1, 0}},
		} {
			down.Delete(step.up)
			var due []string
			for _, i := range step.due {
				due = append(due, links[i].ID)
			}
			b.makeDue(t, due...)
			b.run(t)
			var counts []int
			for _, l := range links {
				counts = append(counts, len(b.eventsOf(t, l)))
			}
			wanttest.Equal(t, step.want, counts, "events after %q", step.name)
		}
	})
}

// makeDue makes the destinations of these links due, and those of no others.
func (b *checks) makeDue(t *testing.T, ids ...string) {
	t.Helper()
	for at, where := range map[time.Time]string{b.world.Now: "id IN (?)", b.world.Now.Add(time.Hour): "id NOT IN (?)"} {
		must.Value(b.Links.DB.NewUpdate().Table("links").Set("check_at = ?", at).Where(where, bun.In(ids)).
			Exec(db.AsSystem(t.Context())))(t)
	}
}

// TestRun_OneHostIsNoNetwork: a run that checks a single host cannot distinguish a fault of the
// host from one of the network.
func TestRun_OneHostIsNoNetwork(t *testing.T) {
	t.Parallel()
	b := setupChecks(t, dbtest.MigratedSQLite(t), func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, nil)
	l := b.linkTo(t, "a", "/")
	b.run(t)
	b.world.Now = b.world.Now.Add(time.Hour)
	b.run(t)
	wanttest.Equal(t, []string{string(audit.DestinationFailed)}, b.eventsOf(t, l), "difference")
	checked := b.linkTo(t, "b", "/")
	b.check(t, checked)
	b.check(t, checked)
	wanttest.Equal(t, []string{string(audit.DestinationFailed)}, b.eventsOf(t, checked), "after checks by a member")
}
