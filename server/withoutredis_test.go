package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// outageQuota is the quota of links whose visitors come while Redis is away.
const outageQuota = 400

// TestHitQuota_RedirectsWithoutRedis: Redis takes no writes, refuses, is silent or slow, for both
// nodes or for one, which may also start then. Visitors of links below half of their quotas receive
// redirects only. Afterwards each quota is used up exactly.
func TestHitQuota_RedirectsWithoutRedis(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			nextMonth(t)
			redis := dbtest.NewRedisServer(t)
			b := production(t).withRedis(redis.URL)
			nodes := startMembers(t, b, 2, fmt.Sprint("LINKFORGE_HIT_QUOTA=", outageQuota))
			who, client := nodes[0].tenant(t, "away"), impatient()
			set := func(mode faulttest.Mode, of ...*member) func() {
				return func() {
					for _, m := range of {
						m.redis.Set(mode)
					}
				}
			}
			both := nodes
			slow := func(d time.Duration) func() {
				return func() { nodes[0].redis.SetDelay(d); nodes[1].redis.SetDelay(d) }
			}
			var links []*trafficLink
			type outage struct {
				name       string
				begin, end func()
			}
			more := []outage{
				{"silent", set(faulttest.BlackHole, both...), set(faulttest.Pass, both...)},
				{"300 ms", slow(300 * time.Millisecond), slow(0)},
				{"one refused", set(faulttest.Refuse, nodes[1]), set(faulttest.Pass, nodes[1])},
				{"one silent", set(faulttest.BlackHole, nodes[1]), set(faulttest.Pass, nodes[1])},
				{"refused", set(faulttest.Refuse, both...), set(faulttest.Pass, both...)},
			}
			for _, fault := range append(suitetest.Size(nil, more), []outage{
				{"READONLY", func() { redis.Do(t, "REPLICAOF 127.0.0.1 1") },
					func() { redis.Do(t, "REPLICAOF NO ONE") }},
				{"one starts", func() {
					nodes[1].stop()
					nodes[1].redis.Set(faulttest.Refuse)
					nodes[1].again()
				}, func() {
					polltest.Until(t, "the node alone reports that it has no Redis", func() bool {
						a, err := nodes[1].get("/readyz/redis")
						return err == nil && a.status == http.StatusServiceUnavailable
					})
					nodes[0].expect(t, http.StatusOK, http.MethodGet, "/readyz/redis")
					nodes[1].redis.Set(faulttest.Pass)
				}},
			}...) {
				l := make([]*trafficLink, 2)
				for i := range l {
					made := who.shorten(t, fmt.Sprintf("https://example.com/%d/%d", len(links), i)).Link
					l[i] = newTrafficLink(made, made.path(nodes[0].server), fault.name, "302")
				}
				for i := range 20 { // the other link has had no visitor
					l[0].request(t, client, nodes[i%2].address)
				}
				fault.begin()
				var visits sync.WaitGroup
				for i := range 2 * 160 {
					visits.Go(func() { l[i%2].request(t, client, nodes[i/2%2].address) })
					_ = poll.Wait(t.Context(), suitetest.Size(5*time.Millisecond, 2500*time.Microsecond))
				}
				visits.Wait()
				fault.end()
				links = append(links, l...)
				for _, node := range nodes {
					polltest.Until(t, "Redis is back", func() bool {
						a, err := node.get("/readyz/redis")
						return err == nil && a.status == http.StatusOK && a.body == "ready\n"
					})
				}
			}
			for _, l := range links {
				l.allowed = "302 429 503"
				polltest.Until(t, "the quota of "+l.kind+" is used up", func() bool {
					var visits sync.WaitGroup
					for i := range 40 {
						visits.Go(func() { l.request(t, client, nodes[i%2].address) })
					}
					visits.Wait()
					return l.seen.Load() >= outageQuota
				})
			}
			for _, node := range nodes {
				node.stop()
			}
			for _, l := range links {
				if clicks := l.check(t, b); clicks != outageQuota || l.seen.Load() != outageQuota {
					t.Errorf("%s: %d redirects and %d clicks, want %d", l.kind, l.seen.Load(), clicks, outageQuota)
				}
			}
		})
	})
}
