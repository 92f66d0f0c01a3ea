package upkeep

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/route/routing"
)

func TestRun_PacesRequestsToAHost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, site, nil)
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
		b.now = b.now.Add(CheckLease / 2)
	}
	for path, times := range requests {
		if times != 1 {
			t.Errorf("%s was requested %d times, want once", path, times)
		}
	}
}

func TestRun_RespectsTooManyRequests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "busy") {
				w.Header().Set("Retry-After", "7200")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, nil)
		var busy []*link.Link
		for range 3 {
			busy = append(busy, b.linkTo(t, "busy", "/busy"))
		}
		idle := b.linkTo(t, "idle", "/idle")
		b.run(t)
		var results []string
		for _, l := range busy {
			got := b.get(t, l)
			results = append(results, outcome(got))
			if !got.CheckAt.Equal(noon.Add(2 * time.Hour)) {
				t.Errorf("said %s, due again %s", outcome(got), got.CheckAt)
			}
		}
		requested, postponed := 0, 0
		for _, s := range results {
			switch s {
			case "503":
				requested++
			case "not requested":
				postponed++
			}
		}
		if requested != 1 || postponed != 2 || outcome(b.get(t, idle)) != "200" {
			t.Errorf("the busy host's links: %s; the idle one's: %s", results, outcome(b.get(t, idle)))
		}
		if got := len(b.takeEvents()); got != 2 {
			t.Errorf("%d requests and sleeps, want one request to either host", got)
		}
	})
}

// TestRun_RecordsUnreachableHost has the run meet it once.
func TestRun_RecordsUnreachableHost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, site, map[string][][]string{"gone.test": {{outboundtest.Silent}}})
		var links []*link.Link
		for range 3 {
			links = append(links, b.link(t, b.net.URL("gone.test", "/")))
		}
		b.run(t)
		results := map[string]int{}
		for _, l := range links {
			got := b.get(t, l)
			results[outcome(got)]++
			if !got.CheckAt.Equal(noon.Add(time.Hour)) {
				t.Errorf("said %s, due again %s", outcome(got), got.CheckAt)
			}
		}
		if diff := cmp.Diff(map[string]int{"nothing": 1, "not requested": 2}, results); diff != "" ||
			b.net.Lookups("gone.test") != 1 {
			t.Errorf("after %d look-ups (-want +got):\n%s", b.net.Lookups("gone.test"), diff)
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
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := b.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, site, nil)
		target := b.net.URL("a"+outboundtest.PublicName, "/404")
		l, _, err := creation.NewStore(creation.Config{Links: b.Links.Store, Quota: b.quota}).
			Create(t.Context(), b.member, creation.Input{
				URL: b.net.URL("b"+outboundtest.PublicName, "/200"),
				Routing: &routing.Change{
					Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: &target}}}}),
				},
			})
		must.NoError(t, err)
		state := func() string {
			checks := must.Value(b.Links.RoutingChecks(t.Context(), b.member, l.ID))(t)
			own, target := b.get(t, l).Checks(checks[l.ID])[0], b.get(t, l).Checks(checks[l.ID])[1]
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupChecks(t, d, site, nil)
		for path, ahead := range map[string]time.Duration{"/200": 24 * time.Hour, "/201": 24*time.Hour + 2*db.MaxSkew} {
			b.linkTo(t, "a", path)
			must.Value(b.db.NewUpdate().Table("links").Set("check_at = ?", b.now.Add(ahead)).
				Where("original_url LIKE ?", "%"+path).Exec(db.AsSystem(t.Context())))(t)
		}
		b.run(t)
		if got := b.takeEvents(); len(got) != 1 || !strings.Contains(got[0], "/201") ||
			!strings.Contains(b.logged.String(), "clock") {
			t.Errorf("checked %v, want the URL that was postponed by more than a day", got)
		}
	})
}
