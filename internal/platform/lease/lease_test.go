package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// row is a row with a lease, and the clock of its holders.
type row struct {
	*db.DB
	now time.Time
}

func each(t *testing.T, test func(t *testing.T, r *row)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		_, err := d.ExecContext(db.AsSystem(t.Context()), "INSERT INTO leases (name, due_at) VALUES ('row', ?)",
			dbtest.Noon)
		must.NoError(t, err)
		test(t, &row{d, dbtest.Noon})
	})
}

func (r *row) update() *bun.UpdateQuery { return r.NewUpdate().Table("leases").Where("name = 'row'") }

// does executes an update of the row, and reports whether the row was updated.
func (r *row) does(t *testing.T, q *bun.UpdateQuery) bool {
	t.Helper()
	return must.Value(db.Affected(q.Exec(db.AsSystem(t.Context()))))(t) == 1
}

// holder returns a holder whose clock is that of the row, and ahead.
func (r *row) holder(ahead, last time.Duration) lease.Lease {
	var end time.Time
	if last > 0 {
		end = r.now.Add(last)
	}
	return lease.New(func() time.Time { return r.now.Add(ahead) }, end)
}

// TestTake_IsOfFreeRows: a row that one holder has taken is free for others when its lease has ended, or
// if it ends later than any clock of today sets.
func TestTake_IsOfFreeRows(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, last, passed time.Duration
		takes               bool
	}{
		"at once":                          {0, 0, 0, false},
		"just before the end":              {0, 0, lease.Life - time.Millisecond, false},
		"at the end":                       {0, 0, lease.Life, true},
		"just before an earlier end":       {0, time.Second, time.Second - time.Millisecond, false},
		"at an earlier end":                {0, time.Second, time.Second, true},
		"at the end, which is not earlier": {0, time.Hour, lease.Life, true},
		"clocks that differ":               {db.MaxSkew, 0, 0, false},
		"a clock that was ahead":           {db.MaxSkew + time.Millisecond, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *row) {
				if !r.does(t, r.holder(c.ahead, c.last).Take(r.update())) {
					t.Fatal("a free row was not taken")
				}
				var columns lease.Columns
				must.NoError(t, r.NewSelect().Table("leases").Column("lease_holder", "lease_until").
					Scan(db.AsSystem(t.Context()), &columns))
				if got := columns.IsAhead(r.now); got != (c.ahead > db.MaxSkew) {
					t.Errorf("ahead %t", got)
				}
				r.now = r.now.Add(c.passed)
				if got := r.does(t, r.holder(0, 0).Take(r.update())); got != c.takes {
					t.Errorf("taken %t, want %t", got, c.takes)
				}
			})
		})
	}
}

// TestTake_IsOfOneHolder has many try at once.
func TestTake_IsOfOneHolder(t *testing.T) {
	each(t, func(t *testing.T, r *row) {
		var took atomic.Int64
		var all sync.WaitGroup
		for range 25 {
			all.Go(func() {
				if r.does(t, r.holder(0, 0).Take(r.update())) {
					took.Add(1)
				}
			})
		}
		all.Wait()
		if took.Load() != 1 {
			t.Errorf("%d holders", took.Load())
		}
	})
}

// TestLease_IsLostToAnother: a holder renews and releases a row until another one takes it, also after its
// lease has ended.
func TestLease_IsLostToAnother(t *testing.T) {
	each(t, func(t *testing.T, r *row) {
		first, second := r.holder(0, 0), r.holder(0, 0)
		r.does(t, first.Take(r.update()))
		r.now = r.now.Add(lease.Life)
		must.NoError(t, first.Renew(t.Context(), r.update()))
		if r.does(t, second.Take(r.update())) {
			t.Error("a renewed row was taken")
		}
		r.now = r.now.Add(lease.Life)
		if !r.does(t, second.Take(r.update())) {
			t.Error("a row that was not renewed was not taken")
		}
		if err := first.Renew(t.Context(), r.update()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("renewed a lost row: %v", err)
		}
		if r.does(t, first.Release(r.update())) || r.does(t, first.Take(r.update())) {
			t.Error("released or taken again after it was lost")
		}
		if !r.does(t, second.Release(r.update())) || !r.does(t, first.Take(r.update())) {
			t.Error("not released, or not free after that")
		}
		must.NoError(t, lease.End(t.Context(), r.update(), r.now))
		if !r.does(t, second.Take(r.update())) {
			t.Error("not free after the end of all leases")
		}
	})
}

// TestRenew_OutlastsErrors: the lease lasts for some renewals.
func TestRenew_OutlastsErrors(t *testing.T) {
	each(t, func(t *testing.T, r *row) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.NoError(t, r.holder(0, 0).Renew(ctx, r.update()))
	})
}

func TestRun_EndsWithTheLease(t *testing.T) {
	t.Parallel()
	held := func(context.Context) error { return nil }
	lost := func(context.Context) error { return lease.ErrLost }
	broken := errors.New("broken")
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		watch, f func(context.Context) error
		want     error
		takes    time.Duration
	}{
		"succeeds":      {held, func(ctx context.Context) error { return nil }, nil, 0},
		"fails":         {held, func(context.Context) error { return broken }, broken, 0},
		"is held":       {held, waits, context.DeadlineExceeded, time.Minute},
		"is lost":       {lost, waits, lease.ErrLost, lease.RenewEvery},
		"lost, at once": {lost, func(context.Context) error { return broken }, broken, 0},
		"panics":        {held, func(context.Context) error { panic(broken) }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := lease.Run(ctx, lease.RenewEvery, c.watch, c.f)
				_, isPanic := errors.AsType[*errs.PanicError](err)
				if isPanic != (name == "panics") || !isPanic && !errors.Is(err, c.want) ||
					time.Since(began) != c.takes {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}
