// Package lease gives a row of any table to one node at a time. The row has two columns, which are null while it is
// free: lease_holder identifies the holder, and lease_until is when others may take the row unless the holder renews
// its lease. A holder whose lease has expired keeps the row until another one takes it.
//
// Instants are those of the nodes' clocks, which may differ by db.MaxSkew. One statement takes a row, so of concurrent
// callers one does. Whatever a holder writes about the row has the condition that it still holds it, which Renew and
// Release add.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// Life is how long a lease lasts after it was taken or renewed. RenewEvery is how often a holder renews it.
	Life       = 30 * time.Second
	RenewEvery = 5 * time.Second
	// Timeout bounds a statement of a lease. A timeout is safe: a row that cannot be taken stays free, and the lease
	// of one that cannot be released expires.
	Timeout = 10 * time.Second
)

// ErrLost means that another holder has the row, or that it is not to be held any more.
var ErrLost = errors.New("the lease is lost: another node has it, or it was canceled")

// Columns are the columns of a row.
type Columns struct {
	LeaseHolder *string
	LeaseUntil  *time.Time
}

// IsAhead reports whether the lease ends later than any clock of today sets. Such a row is free.
func (c Columns) IsAhead(now time.Time) bool { return db.IsAhead(c.LeaseUntil, now, Life) }

// Free is the condition that a row has no holder, or one that may have died.
func Free(now time.Time) schema.QueryWithArgs {
	return bun.SafeQuery("(lease_until IS NULL OR ?)", db.Passed("lease_until", now, Life))
}

// Lease is the lease of one holder.
type Lease struct {
	Holder string
	now    func() time.Time
	last   time.Time
}

// New returns a lease that has taken nothing yet. It ends at the instant last at the latest, even if it is renewed;
// the zero time means that it does not.
func New(now func() time.Time, last time.Time) Lease { return Lease{id.New("run_"), now, last} }

// Take has an update take the rows that are free.
func (l Lease) Take(q *bun.UpdateQuery) *bun.UpdateQuery {
	return l.extend(q).Set("lease_holder = ?", l.Holder).Where("?", Free(l.now()))
}

func (l Lease) extend(q *bun.UpdateQuery) *bun.UpdateQuery {
	until := l.now().Add(Life)
	if !l.last.IsZero() && l.last.Before(until) {
		until = l.last
	}
	return q.Set("lease_until = ?", db.Instant(until))
}

// Renew extends the lease of the row that an update selects. It returns ErrLost if another holder has
// the row. After any other error the lease lasts for some more renewals, so it returns none.
func (l Lease) Renew(ctx context.Context, q *bun.UpdateQuery) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), Timeout)
	defer cancel()
	if n, err := db.Affected(l.extend(q).Where("lease_holder = ?", l.Holder).Exec(ctx)); err == nil && n == 0 {
		return ErrLost
	}
	return nil
}

// Run calls f, and watch from time to time, which renews the lease. The first error of watch ends the context of f, and
// replaces the error of f. Run returns a panic of f as an error.
func Run(ctx context.Context, every time.Duration, watch, f func(context.Context) error) (err error) {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	var lost error
	watching.Go(func() {
		for lost == nil && poll.Wait(ctx, every) == nil {
			if lost = watch(ctx); lost != nil {
				stop()
			}
		}
	})
	defer func() {
		if p := recover(); p != nil {
			err = errs.Panic(p)
		}
		stop()
		watching.Wait()
		if err != nil && lost != nil {
			err = lost
		}
	}()
	return f(ctx)
}

// Release has an update free the rows that the holder still has.
func (l Lease) Release(q *bun.UpdateQuery) *bun.UpdateQuery {
	return q.Set("lease_holder = NULL").Set("lease_until = NULL").Where("lease_holder = ?", l.Holder)
}

// End ends the leases of the rows that an update selects: no holder runs.
func End(ctx context.Context, q *bun.UpdateQuery, now time.Time) error {
	_, err := q.Set("lease_until = ?", db.Instant(now)).Where("lease_holder IS NOT NULL").Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("ending leases: %w", err)
	}
	return nil
}
