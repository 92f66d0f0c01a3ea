package clicksql

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// ClicksSince is the instant since which single clicks are stored.
func (s *Store) ClicksSince() time.Time { return clickstore.KeptSince(s.Now(), s.ClickMonths) }

// Retain creates the partitions of the next months, and deletes expired clicks. Clicks that are not
// sealed yet stay.
func (s *Store) Retain(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for ahead := range 3 {
		if err := s.createPartition(ctx, click.MonthOf(s.Now()).Start().AddDate(0, ahead, 0)); err != nil {
			return fmt.Errorf("creating the partition of a month: %w", err)
		}
	}
	sealed, err := s.sealedAt(ctx, s.DB.NewSelect())
	if err != nil {
		return err
	}
	since := clickstore.Earlier(s.ClicksSince(), sealed) // unsealed clicks have no other counts
	if s.DB.Kind == db.Postgres {
		if _, err := s.DB.NewRaw("SELECT forget_months(?)", since).Exec(ctx); err != nil {
			return fmt.Errorf("dropping months of clicks: %w", err)
		}
		return nil
	}
	return s.forgetRows(ctx, since)
}

// forgetRows deletes old clicks of one workspace after the other: their primary key begins with it.
func (s *Store) forgetRows(ctx context.Context, since time.Time) error {
	var spaces []string
	err := s.DB.NewSelect().Model((*clickstore.Total)(nil)).Distinct().Column("workspace_id").Scan(ctx, &spaces)
	if err != nil {
		return fmt.Errorf("selecting workspaces with clicks: %w", err)
	}
	for _, space := range spaces {
		if err := s.removeAll(ctx, "clicks", "workspace_id = ? AND clicked_at < ?", space, since); err != nil {
			return err
		}
	}
	return nil
}
