package hitquota_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/must"
)

var (
	noon     = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	november = hitquota.MonthOf(noon)
)

func atNoon() time.Time { return noon }

// newClicks returns the click log and the counts of a process that ingests nothing yet.
func newClicks(t *testing.T, d *db.DB) clicktest.Clicks {
	t.Helper()
	return clicktest.New(t, d, atNoon)
}

// ledgerOf is what counts in the database, for the process that a click log belongs to.
func ledgerOf(d *db.DB, c clicktest.Clicks) *hitquota.Ledger {
	return &hitquota.Ledger{Store: &hitquota.Store{DB: d, Clicks: c.Store, Now: atNoon}, LogID: c.Recorder.LogID()}
}

func clickOf(linkID string) click.Click {
	return click.Click{WorkspaceID: id.New(id.Workspace), LinkID: linkID, ClickedAt: noon, LatencyMs: 1}
}

// recordOf records n clicks of a link.
func recordOf(c clicktest.Clicks, linkID string, n int) {
	one := clickOf(linkID)
	for range n {
		c.Record(&one)
	}
}

// ingestAll runs the recorder until all clicks are in the database.
func ingestAll(t *testing.T, c clicktest.Clicks) {
	t.Helper()
	stop := clicktest.Run(t, c.Recorder)
	defer stop()
	must.NoError(t, c.Flush(t.Context()))
}

// number numbers the leases of all tests.
var number atomic.Int64

// takeHits takes hits, and returns how many were granted, as the lease that they are.
func takeHits(t *testing.T, l *hitquota.Ledger, linkID string, want, limit int64) hitquota.Lease {
	t.Helper()
	a := &hitquota.Request{LinkID: linkID, Month: november, Want: want, Limit: limit, Number: number.Add(1)}
	if err := l.Take(t.Context(), []*hitquota.Request{a}); err != nil {
		t.Error(err)
	}
	return hitquota.Lease{LinkID: linkID, Month: november, Number: a.Number, Hits: a.Granted}
}

// grantedOf returns the granted hits of a link in the database.
func grantedOf(t *testing.T, d *db.DB, linkID string) (hits int64) {
	t.Helper()
	must.NoError(t, d.NewSelect().Table("hit_usage").ColumnExpr("coalesce(sum(hits), 0)").Where("link_id = ?", linkID).
		Scan(db.AsSystem(t.Context()), &hits))
	return hits
}

func TestLedger_GrantsUpToTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, linkID := newClicks(t, d), id.New(id.Link)
		recordOf(r, linkID, 20)
		ingestAll(t, r)
		u := ledgerOf(d, r)
		for i, c := range []struct{ want, limit, granted int64 }{
			{20, 50, 20},
			{20, 50, 10}, // as many as are left
			{5, 50, 0},
			{5, 30, 0},
			{5, 60, 5},
		} {
			if got := takeHits(t, u, linkID, c.want, c.limit).Hits; got != c.granted {
				t.Errorf("ask %d: %d granted, want %d", i, got, c.granted)
			}
		}
		if got := grantedOf(t, d, linkID); got != 55 {
			t.Errorf("the database knows of %d hits, want 20 clicks and 35 that were granted", got)
		}
	})
}

func TestLedger_IsExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID := id.New(id.Link)
		var granted atomic.Int64
		var all sync.WaitGroup
		for range 6 {
			u := ledgerOf(d, newClicks(t, d))
			all.Go(func() {
				for range 20 {
					granted.Add(takeHits(t, u, linkID, 3, 100).Hits)
				}
			})
		}
		all.Wait()
		if granted.Load() != 100 {
			t.Errorf("%d hits granted, want 100", granted.Load())
		}
	})
}

// TestLedger_TakesBackOnce: from the process, or from the adopter of its log.
func TestLedger_TakesBackOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dead, linkID := ledgerOf(d, newClicks(t, d)), id.New(id.Link)
		ended, open := takeHits(t, dead, linkID, 10, 100), takeHits(t, dead, linkID, 20, 100)
		ended.Used, open.Used = 4, 5
		neverTaken := hitquota.Lease{LinkID: linkID, Month: november, Number: number.Add(1), Hits: 50}
		for range 2 {
			must.NoError(t, dead.Return(t.Context(), []hitquota.Lease{ended}))
			if got := grantedOf(t, d, linkID); got != 24 {
				t.Errorf("the database knows of %d hits, want 4 and 20", got)
			}
		}
		finder := ledgerOf(d, newClicks(t, d))
		for range 2 {
			leases := []hitquota.Lease{ended, open, neverTaken}
			must.NoError(t, finder.Recover(t.Context(), dead.LogID, leases))
			if got := grantedOf(t, d, linkID); got != 9 {
				t.Errorf("the database knows of %d hits, want 4 and 5", got)
			}
		}
	})
}

func TestLedger_ForgetsPastMonths(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		u, linkID := ledgerOf(d, newClicks(t, d)), id.New(id.Link)
		takeHits(t, u, linkID, 3, 10)
		for _, c := range []struct {
			at   time.Time
			want int64
		}{
			{november.End, 3}, // late requests
			{november.End.AddDate(0, 1, 0), 0},
		} {
			s := &hitquota.Store{DB: d, Now: func() time.Time { return c.at }}
			must.NoError(t, s.ForgetUsage(t.Context()))
			if got := grantedOf(t, d, linkID); got != c.want {
				t.Errorf("at %s the database knows of %d hits, want %d", c.at, got, c.want)
			}
		}
	})
}

// TestLedger_RecoversATrimmedLease: the log has the requested number, which is more than was
// granted.
func TestLedger_RecoversATrimmedLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dead, linkID := ledgerOf(d, newClicks(t, d)), id.New(id.Link)
		used, cut := takeHits(t, dead, linkID, 9, 10), takeHits(t, dead, linkID, 8, 10)
		if used.Hits != 9 || cut.Hits != 1 {
			t.Fatalf("%d and %d granted, want 9 and 1", used.Hits, cut.Hits)
		}
		used.Used, cut.Hits = 9, 8 // as it was noted
		must.NoError(t, dead.Recover(t.Context(), dead.LogID, []hitquota.Lease{used, cut}))
		if got := grantedOf(t, d, linkID); got != 9 {
			t.Errorf("the database knows of %d hits, want the 9 that were used", got)
		}
	})
}
