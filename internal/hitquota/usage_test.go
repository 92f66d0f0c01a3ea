package hitquota_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
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

// usageOf is what counts in the database, for the process that a click log belongs to.
func usageOf(d *db.DB, c clicktest.Clicks) *hitquota.Usage {
	return &hitquota.Usage{Store: &hitquota.Store{DB: d, Clicks: c.Store, Now: atNoon}, Log: c.Recorder}
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
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// number numbers the leases of all tests.
var number atomic.Int64

// takeUsage takes hits, and returns how many were granted, as the lease that they are.
func takeUsage(t *testing.T, u *hitquota.Usage, linkID string, want, limit int64) hitquota.Lease {
	t.Helper()
	a := &hitquota.Request{LinkID: linkID, Month: november, Want: want, Limit: limit, Number: number.Add(1)}
	if err := u.Take(t.Context(), []*hitquota.Request{a}); err != nil {
		t.Error(err)
	}
	return hitquota.Lease{LinkID: linkID, Month: november, Number: a.Number, Hits: a.Granted}
}

// grantedOf returns the granted hits of a link in the database.
func grantedOf(t *testing.T, u *hitquota.Usage, linkID string) int64 {
	t.Helper()
	seeds, err := u.Seeds(t.Context(), november, []string{linkID}, false)
	if err != nil {
		t.Fatal(err)
	}
	return seeds[linkID]
}

func TestUsage_GrantsUpToTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, linkID := newClicks(t, d), id.New(id.Link)
		recordOf(r, linkID, 20)
		ingestAll(t, r)
		u := usageOf(d, r)
		for i, c := range []struct{ want, limit, granted int64 }{
			{20, 50, 20},
			{20, 50, 1}, // all of the requested hits, or one
			{9, 50, 9},
			{5, 50, 0},
			{5, 30, 0},
			{5, 60, 5},
		} {
			if got := takeUsage(t, u, linkID, c.want, c.limit).Hits; got != c.granted {
				t.Errorf("ask %d: %d granted, want %d", i, got, c.granted)
			}
		}
		if got := grantedOf(t, u, linkID); got != 55 {
			t.Errorf("the database knows of %d hits, want 20 clicks and 35 that were granted", got)
		}
	})
}

func TestUsage_IsExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID := id.New(id.Link)
		var granted atomic.Int64
		var all sync.WaitGroup
		for range 6 {
			u := usageOf(d, newClicks(t, d))
			all.Go(func() {
				for range 20 {
					granted.Add(takeUsage(t, u, linkID, 3, 100).Hits)
				}
			})
		}
		all.Wait()
		if granted.Load() != 100 {
			t.Errorf("%d hits granted, want 100", granted.Load())
		}
	})
}

// TestUsage_TakesBackOnce: from the process, or from the adopter of its log.
func TestUsage_TakesBackOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dead, linkID := usageOf(d, newClicks(t, d)), id.New(id.Link)
		ended, open := takeUsage(t, dead, linkID, 10, 100), takeUsage(t, dead, linkID, 20, 100)
		ended.Used, open.Used = 4, 5
		neverTaken := hitquota.Lease{LinkID: linkID, Month: november, Number: number.Add(1), Hits: 50}
		for range 2 {
			if err := dead.Return(t.Context(), []hitquota.Lease{ended}); err != nil {
				t.Fatal(err)
			}
			if got := grantedOf(t, dead, linkID); got != 24 {
				t.Errorf("the database knows of %d hits, want 4 and 20", got)
			}
		}
		finder := usageOf(d, newClicks(t, d))
		for range 2 {
			leases := []hitquota.Lease{ended, open, neverTaken}
			if err := finder.Recover(t.Context(), dead.Log.LogID(), leases); err != nil {
				t.Fatal(err)
			}
			if got := grantedOf(t, dead, linkID); got != 9 {
				t.Errorf("the database knows of %d hits, want 4 and 5", got)
			}
		}
	})
}

// TestUsage_SeedIncludesPendingClicks: clicks in this process's log are counted too, if there may be some,
// whether the database takes clicks at this moment or not.
func TestUsage_SeedIncludesPendingClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, linkID, idle := newClicks(t, d), id.New(id.Link), id.New(id.Link)
		before := clickOf(linkID)
		before.ClickedAt = november.Start.Add(-time.Microsecond)
		r.Record(&before)
		recordOf(r, linkID, 7)
		seed := func(want int64) {
			t.Helper()
			got, err := usageOf(d, r).Seeds(t.Context(), november, []string{linkID, idle}, true)
			if diff := cmp.Diff(map[string]int64{linkID: want, idle: 0}, got); diff != "" || err != nil {
				t.Errorf("seeds (-want +got):\n%s%v", diff, err)
			}
		}
		seed(7)
		clicktest.Run(t, r.Recorder)
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		seed(7) // each is counted once
		recordOf(r, linkID, 5)
		seed(12)
	})
}

func TestGranted_ReturnsHitsSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		u, one, two := usageOf(d, newClicks(t, d)), id.New(id.Link), id.New(id.Link)
		takeUsage(t, u, one, 3, 10)
		takeUsage(t, u, two, 4, 10)
		takeUsage(t, u, two, 4, 10)
		for since, want := range map[time.Time]map[string]string{
			november.Start:      {one: "2026-11: 3", two: "2026-11: 8"},
			noon.Add(time.Hour): {},
		} {
			got := map[string]string{}
			err := u.Granted(t.Context(), since, func(linkID string, m hitquota.Month, hits int64) error {
				got[linkID] = fmt.Sprintf("%s: %d", m, hits)
				return nil
			})
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("granted since %s (-want +got):\n%s%v", since, diff, err)
			}
		}
		stop := func(string, hitquota.Month, int64) error { return context.Canceled }
		if err := u.Granted(t.Context(), november.Start, stop); err == nil {
			t.Error("an error of the one who is told got lost")
		}
	})
}

func TestGranted_IsForgottenAfterTheMonth(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		u, linkID := usageOf(d, newClicks(t, d)), id.New(id.Link)
		takeUsage(t, u, linkID, 3, 10)
		for _, c := range []struct {
			at   time.Time
			want int64
		}{
			{november.End, 3}, // late requests
			{november.End.AddDate(0, 1, 0), 0},
		} {
			s := &hitquota.Store{DB: d, Now: func() time.Time { return c.at }}
			if err := s.ForgetUsage(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := grantedOf(t, u, linkID); got != c.want {
				t.Errorf("at %s the database knows of %d hits, want %d", c.at, got, c.want)
			}
		}
	})
}

// TestUsage_RecoversATrimmedLease: the log has the requested number, which is more than was
// granted.
func TestUsage_RecoversATrimmedLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dead, linkID := usageOf(d, newClicks(t, d)), id.New(id.Link)
		used, cut := takeUsage(t, dead, linkID, 9, 10), takeUsage(t, dead, linkID, 8, 10)
		if used.Hits != 9 || cut.Hits != 1 {
			t.Fatalf("%d and %d granted, want 9 and 1", used.Hits, cut.Hits)
		}
		used.Used, cut.Hits = 9, 8 // as it was noted
		if err := dead.Recover(t.Context(), dead.Log.LogID(), []hitquota.Lease{used, cut}); err != nil {
			t.Fatal(err)
		}
		if got := grantedOf(t, dead, linkID); got != 9 {
			t.Errorf("the database knows of %d hits, want the 9 that were used", got)
		}
	})
}
