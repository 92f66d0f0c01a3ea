package clicksql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/month"
)

// DefaultClickMonths is the default number of whole months for which single clicks are stored. Days are stored forever.
const DefaultClickMonths = 13

// visitorsKept is how long after its day a visitor may still be counted: clicks may wait for the
// database. The day's key is forgotten when the day is over.
const visitorsKept = 2 * click.Day

// ClicksSince is the instant since which single clicks are stored.
func (s *Store) ClicksSince() time.Time {
	months := s.ClickMonths
	if months == 0 {
		months = DefaultClickMonths
	}
	return month.Of(s.Now()).Start().AddDate(0, -months, 0)
}

const (
	// sealedAtOnce and clicksAtOnce bound a transaction.
	sealedAtOnce = 500
	clicksAtOnce = 100_000
	// subjectsPerQuery bounds a statement.
	subjectsPerQuery = 50
)

// busyToday is the number of clicks from which a day is sealed before it is over. Fewer are counted from their rows fast
// enough. Tests reduce it.
var busyToday int64 = 2000

// Seal adds clicks to the days of their links and workspaces: of days that are over, and of busy subjects those of the
// quarters of an hour that are over. Later clicks of these times are added when they are written.
func (s *Store) Seal(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for last := ""; ; {
		var next string
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			next, err = s.sealAfter(ctx, tx, last)
			return err
		})
		if err != nil {
			return fmt.Errorf("sealing days: %w", err)
		}
		if next == "" {
			return nil
		}
		last = next
	}
}

// sealing is what is sealed of a subject: its clicks from one instant to another.
type sealing struct {
	clickledger.Total
	until time.Time
}

// sealAfter seals the next subjects in the order of their ids, and returns the last one; empty if there is none.
func (s *Store) sealAfter(ctx context.Context, tx bun.Tx, last string) (next string, err error) {
	quarter, midnight := s.Now().UTC().Truncate(click.BucketLength), s.Now().UTC().Truncate(click.Day)
	var totals []clickledger.Total
	err = s.DB.ForUpdate(tx.NewSelect().Model(&totals).
		Column("subject_id", "workspace_id", "clicks", "sealed_clicks", "sealed_at").Where("subject_id > ?", last).
		Where("last_at >= sealed_at").
		Where("sealed_at < ? OR sealed_at < ? AND clicks - sealed_clicks >= ?", midnight, quarter, busyToday).
		Order("subject_id").Limit(sealedAtOnce)).Scan(ctx)
	if err != nil {
		return "", err
	}
	var all []sealing
	for open := int64(0); len(totals) > 0 && open < clicksAtOnce; totals = totals[1:] {
		one := sealing{totals[0], midnight}
		if more := one.Clicks - one.SealedClicks; more >= busyToday {
			one.until, open = quarter, open+more
		}
		next, all = one.SubjectID, append(all, one)
	}
	sealed := additions{}
	for chunk := range slices.Chunk(all, subjectsPerQuery) {
		if err := s.addOpen(ctx, tx, sealed, chunk); err != nil {
			return "", err
		}
	}
	if err := addDays(ctx, s.DB, tx, sealed); err != nil {
		return "", err
	}
	for _, until := range []time.Time{midnight, quarter} {
		ids := []string{""}
		for _, one := range all {
			if one.until.Equal(until) {
				ids = append(ids, one.SubjectID)
			}
		}
		_, err := tx.NewUpdate().Model((*clickledger.Total)(nil)).Set("sealed_at = ?", until).Set("sealed_clicks = clicks").
			Where("subject_id IN (?)", bun.In(ids)).Exec(ctx)
		if err != nil {
			return "", err
		}
	}
	return next, nil
}

// addOpen adds the clicks of subjects that are to be sealed.
func (s *Store) addOpen(ctx context.Context, tx bun.Tx, sealed additions, subjects []sealing) error {
	of := func(column string, isKind bool, add func(*click.Click)) error {
		q, some := tx.NewSelect().Model((*click.Row)(nil)), false
		q = q.WhereGroup("", func(q *bun.SelectQuery) *bun.SelectQuery {
			for _, one := range subjects {
				if isWorkspace(one.SubjectID) == isKind {
					some = true
					q = q.WhereOr("? = ? AND clicked_at >= ? AND clicked_at < ?", bun.Ident(column), one.SubjectID, one.SealedAt, one.until)
				}
			}
			return q
		})
		if !some {
			return nil
		}
		return s.eachClick(ctx, q, add)
	}
	if err := of("link_id", false, sealed.addToLink); err != nil {
		return err
	}
	return of("workspace_id", true, sealed.addToWorkspace)
}

// eachClick calls f with the clicks of a query.
func (s *Store) eachClick(ctx context.Context, q *bun.SelectQuery, f func(*click.Click)) error {
	rows, err := q.Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r click.Row
		if err := s.DB.ScanRow(ctx, rows, &r); err != nil {
			return err
		}
		f(r.Click())
	}
	return rows.Err()
}

// Retain creates the partitions of the next months, and deletes expired ones. days must have been
// sealed before.
func (s *Store) Retain(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for ahead := range 3 {
		if err := keepMonth(ctx, s.DB, month.Of(s.Now()).Start().AddDate(0, ahead, 0)); err != nil {
			return fmt.Errorf("creating the partition of a month: %w", err)
		}
	}
	if s.DB.Kind == db.Postgres {
		return s.forgetMonths(ctx)
	}
	return s.forgetRows(ctx)
}

func (s *Store) forgetMonths(ctx context.Context) error {
	for _, table := range []string{"clicks", details} {
		if _, err := s.DB.NewRaw("SELECT forget_months(?, ?)", table, s.ClicksSince()).Exec(ctx); err != nil {
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
		batch := s.DB.NewSelect().Table(details).Column("subject_id", "starts_at").
			Where("subject_id = ?", t.SubjectID).Where("starts_at < ?", s.ClicksSince()).Limit(purgeBatch)
		if err := s.removeAll(ctx, details, "subject_id, starts_at", batch); err != nil {
			return err
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
