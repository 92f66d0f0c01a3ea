package hitquota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// ClickLog is the click log of this process, which lease records are appended to.
type ClickLog interface {
	// LogID names the log, and so the leases of this process.
	LogID() string
	// Note appends the record of a lease that is about to be taken, and returns its position.
	Note(l Lease) (int64, error)
	// End is the position that the log has reached, Lag the age of the oldest click in it that the
	// database does not have, and Capacity how many bytes it may retain.
	End() int64
	Lag() time.Duration
	Capacity() int64
	// AddWaiting adds the clicks of a month that lie behind the position to the counts of their
	// links. If some of them were removed meanwhile, it reports that the caller has to retry from a
	// later position.
	AddWaiting(counts map[string]int64, m Month, position int64) (again bool, err error)
}

// Clicks counts the clicks that the database has.
type Clicks interface {
	// ByLink selects subject_id and clicks of links since the start of a bucket.
	ByLink(linkIDs []string, since time.Time) *bun.SelectQuery
	// Counts are the clicks that links have had, ever. Links without one are missing.
	Counts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error)
}

// Store reads and removes the records of granted hits.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Clicks counts the clicks of links.
	Clicks Clicks
	// Now is the clock.
	Now func() time.Time
}

// leaseRow is an open lease that was taken from the database.
type leaseRow struct {
	bun.BaseModel `bun:"table:click_leases,alias:lease"`

	LogID  string `bun:",pk"`
	Number int64  `bun:",pk"`
	LinkID string
	Month  string
	Hits   int64
}

// insertLease stores a lease of a log, in the transaction that takes it.
func insertLease(ctx context.Context, tx bun.Tx, logID string, l Lease) error {
	row := &leaseRow{LogID: logID, Number: l.Number, LinkID: l.LinkID, Month: l.Month.String(), Hits: l.Hits}
	_, err := tx.NewInsert().Model(row).Returning("NULL").Exec(ctx)
	return err
}

// recoverLeases ends leases of a log, each in a transaction, and calls refund with the hits that
// were not used. A lease that has ended before, or was never taken, has none.
func (s *Store) recoverLeases(
	ctx context.Context, logID string, leases []Lease,
	refund func(ctx context.Context, tx bun.Tx, l Lease, unused int64) error,
) error {
	for _, l := range leases {
		err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			var hits int64
			err := tx.NewDelete().Model((*leaseRow)(nil)).Where("log_id = ?", logID).Where("number = ?", l.Number).
				Returning("hits").Scan(ctx, &hits)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil || hits <= l.Used {
				return err
			}
			return refund(ctx, tx, l, hits-l.Used)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetLeases removes all leases and returns nothing: in a restored database, whose processes are
// gone.
func (s *Store) ForgetLeases(ctx context.Context) error {
	if _, err := s.DB.NewDelete().Model((*leaseRow)(nil)).Where("TRUE").Exec(db.AsSystem(ctx)); err != nil {
		return fmt.Errorf("forgetting leases: %w", err)
	}
	return nil
}

// ForgetUsage removes the grants of past months.
func (s *Store) ForgetUsage(ctx context.Context) error {
	before := MonthOf(s.Now()).Start.AddDate(0, -1, 0)
	_, err := s.DB.NewDelete().Model((*hitUsage)(nil)).Where("changed_at < ?", before).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("forgetting granted hits: %w", err)
	}
	return nil
}
