package hitquota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
)

// clock is a time that passes when the test says so.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.passed.Load())) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

// noClicks is the counts of links without clicks.
type noClicks struct{ d *db.DB }

func (c noClicks) ByLink([]string, time.Time) *bun.SelectQuery {
	return c.d.NewSelect().Table("click_logs").ColumnExpr("'' AS subject_id, 0 AS clicks").Where("FALSE")
}

func (noClicks) Since(string, string) string { return "0" }

func (noClicks) Counts(context.Context, bun.IDB, ...string) (map[string]int64, error) {
	return nil, nil
}

// hitsOf returns the charged hits and the open leases of a link.
func hitsOf(t *testing.T, d *db.DB, linkID string) (hits, leases int64) {
	t.Helper()
	must.NoError(t, d.NewRaw("SELECT coalesce((SELECT sum(hits) FROM hit_usage WHERE link_id = ?), 0), "+
		"(SELECT count(*) FROM click_leases WHERE link_id = ?)", linkID, linkID).
		Scan(db.AsSystem(t.Context()), &hits, &leases))
	return hits, leases
}

// node is a process with its leases, and its log of them.
type node struct {
	*Leases
	hits *Ledger
	stop func()

	mu    sync.Mutex
	noted []Lease
	used  map[int64]int64 // clicks, by their leases
}

func newNode(t *testing.T, d *db.DB, c *clock) *node {
	t.Helper()
	n := &node{
		hits: &Ledger{Store: &Store{DB: d, Clicks: noClicks{d}, Now: c.now}, LogID: id.New(id.Log)}, used: map[int64]int64{},
	}
	n.Leases = NewLeases(LeasesConfig{
		What: "hits", Source: n.hits, Numbers: &atomic.Int64{}, Log: slog.New(slog.DiscardHandler), Now: c.now,
		MaxBatch: ledgerBatch, Note: n.note, LogEnd: func() int64 { return 0 },
	})
	n.stop = run(t, n.Leases)
	return n
}

func (n *node) note(l Lease) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = append(n.noted, l)
	return int64(len(n.noted)), nil
}

// follow has visitors concurrently follow a link, and returns the number of redirects.
func (n *node) follow(t *testing.T, linkID string, visitors int, limit int64) int64 {
	t.Helper()
	var through atomic.Int64
	var all sync.WaitGroup
	for range visitors {
		all.Go(func() {
			hit, ok, err := n.Take(t.Context(), linkID, thisMonth(), limit, n.Now())
			if err != nil {
				t.Error(err)
			}
			if ok {
				through.Add(1)
				n.mu.Lock()
				n.used[hit.LeaseNumber()]++
				n.mu.Unlock()
				hit.Commit()
			}
		})
	}
	all.Wait()
	return through.Load()
}

// left is how many hits of the link's it holds.
func (n *node) left(t *testing.T, linkID string) int32 {
	t.Helper()
	key := must.Value(keyOf(linkID))(t)
	s := n.shard(&key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[key].left
}

// died returns the leases in the node's log, as an adopter reads them.
func (n *node) died() []Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	leases := make([]Lease, len(n.noted))
	for i, l := range n.noted {
		l.Used = n.used[l.Number]
		leases[i] = l
	}
	return leases
}

// together has all nodes follow a link at once, and returns how many visitors were let through.
func together(t *testing.T, nodes []*node, linkID string, visitors int, limit int64) int64 {
	t.Helper()
	var through atomic.Int64
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { through.Add(n.follow(t, linkID, visitors, limit)) })
	}
	all.Wait()
	return through.Load()
}

// exhaust follows a link from all nodes until it is refused even after all leases have ended. It
// returns the number of redirects, which is never above the limit.
func exhaust(t *testing.T, c *clock, nodes []*node, linkID string, visitors int, limit int64) (through int64) {
	t.Helper()
	for idle := 0; idle < 2; {
		more := together(t, nodes, linkID, visitors, limit)
		if through += more; through > limit {
			t.Fatalf("%d were let through, want %d at most", through, limit)
		}
		if more > 0 {
			idle = 0
			continue
		}
		idle++
		c.advance(plentyLife)
		for _, n := range nodes {
			n.reap(t.Context(), false)
		}
	}
	return through
}

// TestNodes_LimitIsExact: however many nodes there are, and however many visitors come at once.
func TestNodes_LimitIsExact(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		nodes, visitors int
		limit           int64
	}{
		{1, 500, 100}, {3, 200, 50}, {3, 20, 1000}, {5, 1, 30},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d visitors, limit %d", s.nodes, s.visitors, s.limit), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				c, linkID := &clock{}, id.New(id.Link)
				var nodes []*node
				for range s.nodes {
					nodes = append(nodes, newNode(t, d, c))
				}
				if got := exhaust(t, c, nodes, linkID, s.visitors, s.limit); got != s.limit {
					t.Errorf("%d were let through, want %d", got, s.limit)
				}
				// The refused ones are not held against a limit that is raised.
				if got := exhaust(t, c, nodes, linkID, s.visitors, s.limit+20); got != 20 {
					t.Errorf("%d were let through after the limit was raised by 20", got)
				}
				for _, n := range nodes {
					n.stop()
				}
				if got, leases := hitsOf(t, d, linkID); got != s.limit+20 || leases != 0 {
					t.Errorf("%d hits are charged and %d leases open, want %d and none", got, leases, s.limit+20)
				}
			})
		})
	}
}

// TestNodes_KillCostsNoHits: its unused hits return once, by its log.
func TestNodes_KillCostsNoHits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const limit = 400
		c, linkID := &clock{}, id.New(id.Link)
		dead, finder, other := newNode(t, d, c), newNode(t, d, c), newNode(t, d, c)
		through := together(t, []*node{dead, other}, linkID, 40, limit)
		for ; dead.left(t, linkID) < 3; through++ {
			if dead.follow(t, linkID, 1, limit) != 1 {
				t.Fatal("the limit was reached too early")
			}
		}
		dead.reap(t.Context(), false) // for its numbers
		taken, _ := hitsOf(t, d, linkID)
		for range 2 {
			must.NoError(t, finder.hits.Recover(t.Context(), dead.hits.LogID, dead.died()))
			got, _ := hitsOf(t, d, linkID)
			if want := taken - dead.Stats().Held; got != want {
				t.Errorf("%d hits are charged, want %d: the dead node held %d", got, want, dead.Stats().Held)
			}
		}
		if through += exhaust(t, c, []*node{finder, other}, linkID, 40, limit); through != limit {
			t.Errorf("%d were let through, want %d", through, limit)
		}
	})
}

// whileStuck calls f while the row of a link cannot be charged: on SQLite no row can be.
func whileStuck(t *testing.T, d *db.DB, linkID string, f func()) {
	t.Helper()
	if d.Kind == db.Postgres {
		dbtest.WhileLocked(t, d, "hit_usage", "link_id = '"+linkID+"'", func(context.Context) { f() })
		return
	}
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(context.Context, bun.Tx) error {
		f()
		return nil
	}))
}

// TestNodes_SlowStatementIsNoOutage: links whose requests share a statement with that of a locked row
// redirect. Visitors of the locked one wait for visitorWait, and those who come later get the hits that
// were taken meanwhile.
func TestNodes_SlowStatementIsNoOutage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const others, limit = 40, 10
		c, stuck := &clock{}, id.New(id.Link)
		n, creator := newNode(t, d, c), newNode(t, d, c)
		creator.follow(t, stuck, 1, limit) // creates the row
		whileStuck(t, d, stuck, func() {
			for range maxTakes {
				n.slots <- struct{}{}
			}
			var failed, served sync.WaitGroup
			for range 3 {
				failed.Go(func() {
					if got, err := tryTake(t.Context(), n.Leases, stuck, 1, limit); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%d hits of the locked link given: %v", got, err)
					}
				})
			}
			for range others {
				served.Go(func() {
					got, err := tryTake(t.Context(), n.Leases, id.New(id.Link), 2, limit)
					if d.Kind == db.Postgres && (got != 2 || err != nil) {
						t.Errorf("%d hits of another link given, want 2: %v", got, err)
					}
				})
			}
			polltest.Until(t, "all requests wait for one statement", func() bool {
				n.Leases.mu.Lock()
				defer n.Leases.mu.Unlock()
				return len(n.requests) == others+1
			})
			for range maxTakes {
				<-n.slots
			}
			served.Wait()
			failed.Wait()
		})
		if n.Stats().Away {
			t.Error("a slow statement was taken for an outage")
		}
		if got := n.follow(t, stuck, 2*limit, limit); got != limit-1 {
			t.Errorf("%d visitors of the link were let through, want %d", got, limit-1)
		}
		n.stop()
		creator.stop()
		if hits, leases := hitsOf(t, d, stuck); hits != limit || leases != 0 {
			t.Errorf("%d hits are charged and %d leases open, want %d and none", hits, leases, limit)
		}
	})
}
