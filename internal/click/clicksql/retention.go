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

// Retain creates the partitions of the next months, and deletes expired ones. Clicks that
// are not sealed yet stay.
func (s *Store) Retain(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for ahead := range 3 {
		if err := s.keepMonth(ctx, click.MonthOf(s.Now()).Start().AddDate(0, ahead, 0)); err != nil {
			return fmt.Errorf("creating the partition of a month: %w", err)
		}
	}
	sealed, err := s.sealedAt(ctx, s.DB.NewSelect())
	if err != nil {
		return err
	}
	since := clickstore.Earlier(s.ClicksSince(), sealed) // unsealed clicks have no other counts
	if s.DB.Kind == db.Postgres {
		return s.forgetMonths(ctx, since)
	}
	return s.forgetRows(ctx, since)
}

func (s *Store) forgetMonths(ctx context.Context, since time.Time) error {
	for _, table := range []string{"clicks", details} {
		if _, err := s.DB.NewRaw("SELECT forget_months(?, ?)", table, since).Exec(ctx); err != nil {
			return fmt.Errorf("dropping months of %s: %w", table, err)
		}
	}
	return nil
}

// forgetRows goes through all subjects, whose rows are found by their keys.
func (s *Store) forgetRows(ctx context.Context, since time.Time) error {
	var subjects []clickstore.Total
	if err := s.DB.NewSelect().Model(&subjects).Column("subject_id", "workspace_id").Scan(ctx); err != nil {
		return fmt.Errorf("selecting subjects with clicks: %w", err)
	}
	spaces := map[string]bool{}
	for _, t := range subjects {
		spaces[t.WorkspaceID] = true
		if err := s.removeAll(ctx, details, "subject_id = ? AND starts_at < ?", t.SubjectID, since); err != nil {
			return err
		}
	}
	for space := range spaces {
		if err := s.removeAll(ctx, "clicks", "workspace_id = ? AND clicked_at < ?", space, since); err != nil {
			return err
		}
	}
	return nil
}
