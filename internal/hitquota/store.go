package hitquota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
	// End is the position that the log has reached, Capacity how many bytes it may retain.
	End() int64
	Capacity() int64
}

// Clicks counts the clicks that the database has.
type Clicks interface {
	// ByLink selects subject_id and clicks of links since the start of a bucket.
	ByLink(linkIDs []string, since time.Time) *bun.SelectQuery
	// Since is the SQL on PostgreSQL of the clicks of a link since the start of a bucket, both as SQL.
	Since(linkID, from string) string
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

// leaseRow is an open lease. The transaction that charges its hits inserts it, and the one that
// refunds the unused ones deletes it: so they return once.
type leaseRow struct {
	bun.BaseModel `bun:"table:click_leases,alias:lease"`

	LogID  string `bun:",pk,type:text"`
	Number int64  `bun:",pk,type:bigint"`
	LinkID string `bun:"type:text"`
	Month  string `bun:"type:text"`
	Hits   int64  `bun:"type:bigint"`
}

// insertLease stores a lease of a log, in the transaction that takes it.
func insertLease(ctx context.Context, tx bun.Tx, logID string, l Lease) error {
	row := &leaseRow{LogID: logID, Number: l.Number, LinkID: l.LinkID, Month: l.Month.String(), Hits: l.Hits}
	_, err := tx.NewInsert().Model(row).Returning("NULL").Exec(ctx)
	return err
}

// recoverLeases ends leases of a log, and calls refund with the hits of each link that were not
// used, in the same transaction. A lease that has ended before, or was never taken, has none.
func (s *Store) recoverLeases(
	ctx context.Context, logID string, leases []Lease,
	refund func(ctx context.Context, tx bun.Tx, unused map[linkMonth]int64) error,
) error {
	for chunk := range slices.Chunk(leases, returnChunk) {
		used, numbers := make(map[int64]int64, len(chunk)), make([]int64, len(chunk))
		for i, l := range chunk {
			used[l.Number], numbers[i] = l.Used, l.Number
		}
		err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			var ended []leaseRow
			err := tx.NewDelete().Model((*leaseRow)(nil)).Where("log_id = ?", logID).
				Where("number IN (?)", bun.In(numbers)).Returning("number, link_id, month, hits").Scan(ctx, &ended)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			unused := map[linkMonth]int64{}
			for _, row := range ended {
				if n := row.Hits - used[row.Number]; n > 0 {
					unused[linkMonth{row.LinkID, row.Month}] += n
				}
			}
			if len(unused) == 0 {
				return nil
			}
			return refund(ctx, tx, unused)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetLeases removes all leases and the counts of monthly hits, which begin again with the clicks:
// in a restored database, whose processes are gone. The grants of targets return with their leases: they
// cannot be counted again, because clicks of private visitors name no target.
func (s *Store) ForgetLeases(ctx context.Context) error {
	leased := s.DB.NewSelect().Model((*leaseRow)(nil)).Where("lease.link_id = target_grants.target_id")
	_, err := s.DB.NewUpdate().Table(ofTargets.table).
		Set("granted = granted - (?)", leased.ColumnExpr("SUM(lease.hits)")).
		Where("target_id IN (SELECT link_id FROM click_leases)").Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("returning the grants of targets: %w", err)
	}
	for _, model := range []any{(*leaseRow)(nil), (*hitUsage)(nil)} {
		if _, err := s.DB.NewDelete().Model(model).Where("TRUE").Exec(db.AsSystem(ctx)); err != nil {
			return fmt.Errorf("forgetting leases: %w", err)
		}
	}
	return nil
}

// ForgetUsage removes the hits of past months, except the last, which late requests still need.
func (s *Store) ForgetUsage(ctx context.Context) error {
	before := MonthOf(MonthOf(s.Now()).Start.AddDate(0, 0, -1))
	_, err := s.DB.NewDelete().Model((*hitUsage)(nil)).Where("month < ?", before.String()).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("forgetting granted hits: %w", err)
	}
	return nil
}
