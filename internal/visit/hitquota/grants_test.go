package hitquota

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// newLink inserts a link with a maximum, which may be nil.
func newLink(t *testing.T, d *db.DB, maxClicks *int64) string {
	t.Helper()
	linkID := id.New(id.Link)
	must.Value(d.ExecContext(db.AsSystem(t.Context()), `INSERT INTO links (id, workspace_id, code, root_code, strategy,
		original_url, canonical_url, canonical_hash, redirect_status, created_at, updated_at, max_clicks)
		VALUES (?0, 'ws_00000000000000000000000000', ?0, ?0, 'RANDOM', ?0, ?0, ?1, 302, ?2, ?2, ?3)`,
		linkID, []byte(linkID), db.Instant(dbtest.Noon), maxClicks))(t)
	addGrants(t, d, linkID, linkID, maxClicks)
	return linkID
}

// newTarget inserts a target of a link with a maximum.
func newTarget(t *testing.T, d *db.DB, linkID string, maxClicks int64) string {
	t.Helper()
	targetID := id.New(id.Target)
	addGrants(t, d, targetID, linkID, &maxClicks)
	return targetID
}

func addGrants(t *testing.T, d *db.DB, subject, linkID string, maxClicks *int64) {
	t.Helper()
	must.Value(d.ExecContext(db.AsSystem(t.Context()),
		`INSERT INTO grants (subject_id, link_id, workspace_id, max_clicks)
		VALUES (?, ?, 'ws_00000000000000000000000000', ?)`, subject, linkID, maxClicks))(t)
}

func grantedOf(t *testing.T, d *db.DB, subject string) (n int64) {
	t.Helper()
	must.NoError(t, d.NewSelect().Table("grants").Column("granted").Where("subject_id = ?", subject).
		Scan(db.AsSystem(t.Context()), &n))
	return n
}

// runGrants returns the grants of a process, and a function that ends it.
func runGrants(t *testing.T, d *db.DB) (g *Grants, stop func()) {
	t.Helper()
	g = NewGrants(d, discard)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return g, stop
}

// TestGrants_AreExact: for links and targets whose maximum is used up by visitors of two nodes at
// once, for links that have none any more, and after unused grants have returned.
func TestGrants_AreExact(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		first, stopFirst := runGrants(t, d)
		second, stopSecond := runGrants(t, d)
		links := map[string]int64{}
		for _, maxClicks := range []int64{1, 7, 30} {
			links[newLink(t, d, &maxClicks)] = maxClicks
		}
		links[newTarget(t, d, newLink(t, d, new(int64(3))), 9)] = 9
		links[newLink(t, d, nil)] = 40
		var visits sync.WaitGroup
		for linkID, want := range links {
			var granted atomic.Int64
			var unused Grant
			grants := make([]Grant, 40)
			for i := range grants {
				visits.Go(func() {
					grant, ok, err := []*Grants{first, second}[i%2].Grant(t.Context(), linkID)
					if err != nil {
						t.Error(err)
					}
					if ok && granted.Add(1) == 1 {
						unused = grant
					} else {
						grants[i] = grant
					}
				})
			}
			visits.Wait()
			if got := granted.Load(); got != want {
				t.Errorf("%d of 40 visitors got a grant, want %d", got, want)
			}
			unused.Release()
			unused.Release()
			polltest.Until(t, "the unused grant returns once", func() bool { return grantedOf(t, d, linkID) == want-1 })
			polltest.Until(t, "the others are outstanding", func() bool {
				return first.OutstandingGrants()+second.OutstandingGrants() == want-1
			})
			for _, g := range grants {
				g.Commit()
			}
		}
		stopFirst()
		stopSecond()
		for linkID, want := range links {
			if got := grantedOf(t, d, linkID); got != want-1 {
				t.Errorf("%d granted, want %d", got, want-1)
			}
		}
	})
}

// TestGrants_ReturnForVisitorsWhoHaveGone: the statement continues without its visitor.
func TestGrants_ReturnForVisitorsWhoHaveGone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID := newLink(t, d, new(int64(5)))
		g, stop := runGrants(t, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		for range 3 {
			if _, ok, err := g.Grant(ctx, linkID); ok || err == nil {
				t.Errorf("granted %t: %v", ok, err)
			}
		}
		stop()
		if got := grantedOf(t, d, linkID); got != 0 {
			t.Errorf("%d granted, want none", got)
		}
	})
}

// TestGrants_FailedReturnIsOutstanding: until the database has it.
func TestGrants_FailedReturnIsOutstanding(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	linkID := newLink(t, d, new(int64(5)))
	g := NewGrants(d, discard)
	grant, ok, err := g.Grant(t.Context(), linkID)
	if !ok || err != nil {
		t.Fatalf("granted %t: %v", ok, err)
	}
	grant.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	dbtest.WhileLocked(t, d, "grants", "subject_id = '"+linkID+"'", func(context.Context) {
		if err := g.returnOwed(ctx); err == nil || g.OutstandingGrants() != 1 {
			t.Errorf("%d grants are outstanding, want 1: %v", g.OutstandingGrants(), err)
		}
	})
	for range 2 {
		must.NoError(t, g.returnOwed(t.Context()))
	}
	if got := grantedOf(t, d, linkID); got != 0 || g.OutstandingGrants() != 0 {
		t.Errorf("%d granted and %d outstanding, want none", got, g.OutstandingGrants())
	}
}

// TestGrants_LockedRowDelaysNoOtherLink: links and targets that share a statement with a locked row
// get their grants by statements of their own, and keep the grants of earlier statements of the
// call. Visitors who have gone get none.
func TestGrants_LockedRowDelaysNoOtherLink(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	g, _ := runGrants(t, d)
	locked := newLink(t, d, new(int64(5)))
	other := newTarget(t, d, newLink(t, d, nil), 5)
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		must.Value(tx.ExecContext(ctx, "SELECT FROM grants WHERE subject_id = ? FOR UPDATE", locked))(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		gone, here := &grantRequest{ctx: ended, subject: other}, &grantRequest{ctx: t.Context(), subject: other}
		many := []*grantRequest{gone, here}
		for range 50 {
			many = append(many, &grantRequest{ctx: t.Context(), subject: locked})
		}
		_ = must.Value(g.grantAll(db.AsSystem(t.Context()), slices.Clone(many)))(t)
		if gone.isGranted || !here.isGranted || here.err != nil {
			t.Errorf("%+v and %+v, want one grant, of the visitor who waits", gone, here)
		}
		for _, w := range many[2:] {
			if w.isGranted || !db.IsLockTimeout(w.err) {
				t.Errorf("%+v, want a timeout of the lock", w)
			}
		}
		if _, ok, err := g.Grant(t.Context(), other); !ok || err != nil {
			t.Errorf("the target of another link: %t, %v", ok, err)
		}
		if _, ok, err := g.Grant(t.Context(), locked); ok || !errs.Is(err, errs.Unavailable) && err == nil {
			t.Errorf("the locked link: %t, %v", ok, err)
		}
		return nil
	}))
}
