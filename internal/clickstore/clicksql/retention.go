package clicksql

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/month"
)

// The default numbers of whole months for which single clicks and quarter-hour rollups are stored.
// Daily rollups are stored forever.
const (
	DefaultClickMonths   = 13
	DefaultQuarterMonths = 25
)

// visitorsKept is how long after its day a visitor may still be counted: clicks may wait for the
// database. The day's key is forgotten when the day is over.
const visitorsKept = 2 * click.Day

// ClicksSince is the instant since which single clicks are stored, quartersSince that of
// quarter-hour rollups, which is not later.
func (s *Store) ClicksSince() time.Time { return s.since(s.ClickMonths, DefaultClickMonths) }
func (s *Store) quartersSince() time.Time {
	if since := s.since(s.QuarterMonths, DefaultQuarterMonths); since.Before(s.ClicksSince()) {
		return since
	}
	return s.ClicksSince()
}

func (s *Store) since(months, otherwise int) time.Time {
	if months == 0 {
		months = otherwise
	}
	return month.Of(s.Now()).Start().AddDate(0, -months, 0)
}

// sealedAtOnce bounds a transaction.
const sealedAtOnce = 500

// Seal sums up the days that are over, so that long ranges are read by the day.
func (s *Store) Seal(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	today := s.Now().UTC().Truncate(click.Day)
	for last := ""; ; {
		var subjects []string
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			subjects, err = s.sealAfter(ctx, tx, last, today)
			return err
		})
		if err != nil {
			return fmt.Errorf("rolling up days: %w", err)
		}
		if len(subjects) == 0 {
			return nil
		}
		last = subjects[len(subjects)-1]
	}
}

// sealAfter seals the next subjects in the order of their ids, which it returns.
func (s *Store) sealAfter(ctx context.Context, tx bun.Tx, last string, today time.Time) (subjects []string, err error) {
	var totals []clickledger.Total
	err = s.DB.ForUpdate(tx.NewSelect().Model(&totals).Column("subject_id", "sealed_at").Where("subject_id > ?", last).
		Where("sealed_at < ?", today).Where("last_at >= sealed_at").Order("subject_id").Limit(sealedAtOnce)).Scan(ctx)
	if err != nil || len(totals) == 0 {
		return nil, err
	}
	whole, sealedAt, oldest := sums{}, map[string]time.Time{}, today
	for _, t := range totals {
		subjects = append(subjects, t.SubjectID)
		sealedAt[t.SubjectID] = t.SealedAt
		if t.SealedAt.Before(oldest) {
			oldest = t.SealedAt
		}
	}
	var rows []bucket
	err = tx.NewSelect().Model(&rows).Where("subject_id IN (?)", bun.In(subjects)).Where("starts_at >= ?", oldest).
		Where("starts_at < ?", today).Scan(ctx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if b := &rows[i]; !b.StartsAt.Before(sealedAt[b.SubjectID]) {
			d := whole.rollupFor(b.SubjectID, b.WorkspaceID, b.StartsAt.UTC().Truncate(click.Day))
			if err := d.add(b); err != nil {
				return nil, err
			}
			d.counts.AddQuarter(b.StartsAt, b.count())
		}
	}
	sealed := make([]bucket, 0, len(whole))
	for _, one := range whole.sorted() {
		one.Counts = one.counts.Encode()
		sealed = append(sealed, one.bucket)
	}
	if err := replace(ctx, tx, days, sealed); err != nil {
		return nil, err
	}
	_, err = tx.NewUpdate().Model((*clickledger.Total)(nil)).Set("sealed_at = ?", today).Where("subject_id IN (?)", bun.In(subjects)).
		Exec(ctx)
	return subjects, err
}

// Retain creates the partitions of the next months, and deletes expired ones. days must have been
// sealed before.
func (s *Store) Retain(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for ahead := range 3 {
		if err := KeepMonth(ctx, s.DB, month.Of(s.Now()).Start().AddDate(0, ahead, 0)); err != nil {
			return fmt.Errorf("creating the partition of a month: %w", err)
		}
	}
	if s.DB.Kind == db.Postgres {
		return s.forgetMonths(ctx)
	}
	return s.forgetRows(ctx)
}

func (s *Store) forgetMonths(ctx context.Context) error {
	for table, since := range map[string]time.Time{"clicks": s.ClicksSince(), details: s.ClicksSince(),
		quarters: s.quartersSince()} {
		if _, err := s.DB.NewRaw("SELECT forget_months(?, ?)", table, since).Exec(ctx); err != nil {
			return fmt.Errorf("dropping months of %s: %w", table, err)
		}
	}
	return nil
}

// forgetRows goes through all subjects, whose rows are found by their keys.
func (s *Store) forgetRows(ctx context.Context) error {
	var subjects []clickledger.Total
	if err := s.DB.NewSelect().Model(&subjects).Column("subject_id", "workspace_id").Scan(ctx); err != nil {
		return fmt.Errorf("selecting subjects with clicks: %w", err)
	}
	spaces := map[string]bool{}
	for _, t := range subjects {
		spaces[t.WorkspaceID] = true
		for table, since := range map[string]time.Time{quarters: s.quartersSince(), details: s.ClicksSince()} {
			batch := s.DB.NewSelect().Table(table).Column("subject_id", "starts_at").
				Where("subject_id = ?", t.SubjectID).Where("starts_at < ?", since).Limit(purgeBatch)
			if err := s.removeAll(ctx, table, "subject_id, starts_at", batch); err != nil {
				return err
			}
		}
	}
	for space := range spaces {
		batch := s.DB.NewSelect().Table("clicks").Column("workspace_id", "clicked_at", "id").
			Where("workspace_id = ?", space).Where("clicked_at < ?", s.ClicksSince()).Limit(purgeBatch)
		if err := s.removeAll(ctx, "clicks", "workspace_id, clicked_at, id", batch); err != nil {
			return err
		}
	}
	return nil
}

// ForgetWho deletes every key and every visitor, from a copy of the database that is stored:
// today's key would reveal who has followed which link today.
func (s *Store) ForgetWho(ctx context.Context) error {
	for _, table := range []string{"visitor_keys", "visitors"} {
		if _, err := s.DB.NewDelete().Table(table).Where("TRUE").Exec(db.AsSystem(ctx)); err != nil {
			return fmt.Errorf("deleting visitors: %w", err)
		}
	}
	return nil
}

// ForgetVisitors deletes the keys of past days, and visitors of days for which no more clicks are
// expected.
func (s *Store) ForgetVisitors(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	now := s.Now()
	_, err := s.DB.NewDelete().Table("visitor_keys").Where("day < ?", click.DayOf(now)).Exec(ctx)
	if err == nil {
		_, err = s.DB.NewDelete().Table("visitors").Where("day < ?", click.DayOf(now.Add(-visitorsKept))).Exec(ctx)
	}
	if err == nil && s.DB.Kind == db.SQLite { // on SQLite deleted rows remain in its log until a checkpoint
		_, err = s.DB.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	if err != nil {
		return fmt.Errorf("deleting visitors: %w", err)
	}
	return nil
}
