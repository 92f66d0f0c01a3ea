package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

const (
	// midnightQuota is more than twice what visitors use of a link until PostgreSQL is back.
	midnightQuota = 1000
	// beforeMidnight is the time from the start of the nodes to the end of the month.
	beforeMidnight = 30 * time.Second
	// aroundMidnight is how long PostgreSQL is away before midnight, and after it.
	aroundMidnight = 5 * time.Second
)

// TestFault_MonthBeginsWithoutDatabase: PostgreSQL is away from two nodes over midnight of a month, at 400 visits a
// second. All visitors of links in memory receive redirects, and the quota of the new month is used up exactly.
func TestFault_MonthBeginsWithoutDatabase(t *testing.T) {
	suitetest.Fault(t)
	for name, away := range map[string]faulttest.Mode{"refuses": faulttest.Refuse, "is silent": faulttest.BlackHole} {
		t.Run("postgres/redis/"+name, func(t *testing.T) {
			midnight := nextMonth(t)
			ahead := time.Until(midnight) - beforeMidnight
			untilMidnight := func() time.Duration { return time.Until(midnight) - ahead }
			b := production(t).withRedis(dbtest.NewRedisServer(t).URL)
			nodes := startMembers(t, b, 2, fmt.Sprint(clockAhead, "=", ahead),
				fmt.Sprint("LINKFORGE_HIT_QUOTA=", midnightQuota))
			who, client := nodes[0].tenant(t, "midnight"), impatient()
			links := make([]*trafficLink, 10)
			for i := range links {
				made := who.shorten(t, fmt.Sprint("https://example.com/", i)).Link
				links[i] = newTrafficLink(made, made.path(nodes[0].server), made.OriginalURL, "302")
			}
			var answered, asked atomic.Int64
			visit := func(every, until time.Duration) {
				var visits sync.WaitGroup
				for i := 0; untilMidnight() > until; i++ {
					asked.Add(1)
					n := len(links)
					if left := untilMidnight(); left < 0 && left > -2*time.Second {
						n /= 2 // the month of the others begins later
					}
					visits.Go(func() {
						if links[i%n].request(t, client, nodes[i/n%2].address) == http.StatusFound {
							answered.Add(1)
						}
					})
					_ = poll.Wait(t.Context(), every)
				}
				visits.Wait()
			}
			visit(25*time.Millisecond, aroundMidnight)
			for _, node := range nodes {
				node.database.Set(away)
			}
			visit(2500*time.Microsecond, -aroundMidnight)
			if answered.Load() < asked.Load() {
				t.Errorf("%d of %d visitors received redirects", answered.Load(), asked.Load())
			}
			for _, node := range nodes {
				node.database.Set(faulttest.Pass)
			}
			for _, l := range links {
				l.allowed = "302 429 503"
				polltest.Until(t, "the quota of "+l.kind+" is used up", func() bool {
					var visits sync.WaitGroup
					var refused atomic.Int64
					seen := l.seen.Load()
					for i := range 40 {
						visits.Go(func() {
							if l.request(t, client, nodes[i%2].address) == http.StatusTooManyRequests {
								refused.Add(1)
							}
						})
					}
					visits.Wait()
					return refused.Load() > 0 && l.seen.Load() == seen
				})
			}
			for _, node := range nodes {
				node.stop()
			}
			for _, l := range links {
				l.losesCharges = true // they are counted by the month of the machine's clock
				l.check(t, b)
				if n := numberOf(t, b, "SELECT count(*) FROM clicks WHERE link_id = ? AND clicked_at >= '"+
					midnight.Format(time.RFC3339)+"'", l.id); n != midnightQuota {
					t.Errorf("%s: %d clicks after midnight, want %d", l.kind, n, midnightQuota)
				}
			}
		})
	}
}
