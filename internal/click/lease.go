package click

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
)

// leaseRow is there while redirects are out that were taken from the database.
type leaseRow struct {
	bun.BaseModel `bun:"table:click_leases,alias:lease"`

	LogID  string `bun:",pk"`
	Number int64  `bun:",pk"`
	LinkID string
	Month  string
	Hits   int64
}

// KeepLease keeps in the database that this process has taken a lease there, in the transaction that takes it.
func (r *Recorder) KeepLease(ctx context.Context, tx bun.Tx, l hitquota.Lease) error {
	row := &leaseRow{LogID: r.LogID(), Number: l.Number, LinkID: l.LinkID, Month: l.Month.String(), Hits: l.Hits}
	_, err := tx.NewInsert().Model(row).Returning("NULL").Exec(ctx)
	return err
}

// EndLease ends a lease of a log, in the transaction that gives back what is left of it, and returns how many hits had been
// granted: none when it has been ended before, or was never taken.
func (r *Recorder) EndLease(ctx context.Context, tx bun.Tx, logID string, number int64) (hits int64, err error) {
	err = tx.NewDelete().Model((*leaseRow)(nil)).Where("log_id = ?", logID).Where("number = ?", number).Returning("hits").Scan(ctx, &hits)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return hits, err
}

// ForgetLeases ends all leases, and gives nothing back: of a restored database, whose processes are gone.
func (s *Store) ForgetLeases(ctx context.Context) error {
	if _, err := s.DB.NewDelete().Model((*leaseRow)(nil)).Where("TRUE").Exec(db.AsSystem(ctx)); err != nil {
		return fmt.Errorf("forgetting leases: %w", err)
	}
	return nil
}
