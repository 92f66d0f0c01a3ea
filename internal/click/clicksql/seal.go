package clicksql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

const (
	// sealedAtOnce and clicksAtOnce bound a transaction.
	sealedAtOnce = 500
	clicksAtOnce = 100_000
)

// busyToday is the number of clicks from which a day is sealed before it is over. Fewer are counted
// from their rows fast enough. Tests reduce it.
var busyToday int64 = 2000

// openFor is how long clicks may wait for the database before they are late, which costs more.
const openFor = time.Minute

// Seal implements clickstore.Store: it adds clicks to the days of their links and workspaces, those
// of days that are over and, of busy subjects, those of the quarters of an hour that are over.
func (s *Store) Seal(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for isDone := false; !isDone; {
		isDone = true
		for last := ""; ; {
			var next string
			err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				all, err := s.sealable(ctx, tx, last)
				if err != nil || len(all) == 0 {
					return err
				}
				next = all[len(all)-1].SubjectID
				isDone = isDone && !slices.ContainsFunc(all, func(one sealing) bool { return one.isPart })
				return s.seal(ctx, tx, all)
			})
			if err != nil {
				return fmt.Errorf("sealing days: %w", err)
			}
			if next == "" {
				break
			}
			last = next
		}
	}
	return nil
}

// sealing is a subject whose clicks are sealed until an instant. With isPart, more are sealed by a
// later transaction, because they are too many for one.
type sealing struct {
	clickstore.Total
	until  time.Time
	isPart bool
}

// sealable locks the next subjects that have something to seal, in the order of their ids.
func (s *Store) sealable(ctx context.Context, tx bun.Tx, last string) (all []sealing, err error) {
	now := s.Now().UTC()
	midnight, quarter := now.Truncate(click.Day), now.Add(-openFor).Truncate(click.BucketLength)
	dayOfSealed := "substr(sealed_at, 1, 10) || ' 00:00:00+00:00'"
	if s.DB.Kind == db.Postgres {
		dayOfSealed = "date_trunc('day', sealed_at, 'UTC')"
	}
	var totals []clickstore.Total
	err = s.DB.ForUpdate(tx.NewSelect().Model(&totals).
		Column("subject_id", "workspace_id", "clicks", "_sealed_clicks", "sealed_at").Where("subject_id > ?", last).
		Where("last_at >= "+dayOfSealed). // a day that is sealed in part is sealed as a whole when it is over
		Where("sealed_at < ? OR sealed_at < ? AND clicks - _sealed_clicks >= ?", midnight, quarter, busyToday).
		Order("subject_id").Limit(sealedAtOnce)).Scan(ctx)
	if err != nil {
		return nil, err
	}
	open := int64(0)
	for _, t := range totals {
		more := t.Clicks - t.SealedClicks
		if open += more; open > clicksAtOnce && len(all) > 0 {
			break
		}
		one := sealing{Total: t, until: midnight}
		if more >= busyToday && quarter.After(midnight) {
			one.until = quarter
		}
		if hour := t.SealedAt.UTC().Add(time.Hour); more > clicksAtOnce && hour.Before(one.until) {
			one.until, one.isPart = hour, true
		}
		all = append(all, one)
	}
	return all, nil
}

// seal adds the clicks of subjects to their days.
func (s *Store) seal(ctx context.Context, tx bun.Tx, all []sealing) error {
	sealed := additions{}
	if err := s.addOpen(ctx, tx, sealed, all); err != nil {
		return err
	}
	ends, sealedAt, whole := map[time.Time][]string{}, map[string]time.Time{}, []string{""}
	for _, one := range all {
		ends[one.until], sealedAt[one.SubjectID] = append(ends[one.until], one.SubjectID), one.SealedAt
		if !one.isPart {
			whole = append(whole, one.SubjectID)
		}
	}
	isNew := func(a *addition) bool { return !a.StartsAt.Before(sealedAt[a.SubjectID]) }
	if err := s.addDays(ctx, tx, sealed, isNew); err != nil {
		return err
	}
	for until, ids := range ends {
		_, err := tx.NewUpdate().Model((*clickstore.Total)(nil)).Set("sealed_at = ?", until).
			Where("subject_id IN (?)", bun.In(ids)).Exec(ctx)
		if err != nil {
			return err
		}
	}
	_, err := tx.NewUpdate().Model((*clickstore.Total)(nil)).Set("_sealed_clicks = clicks").
		Where("subject_id IN (?)", bun.In(whole)).Exec(ctx)
	return err
}

// addOpen adds the clicks of subjects that are to be sealed.
func (s *Store) addOpen(ctx context.Context, tx bun.Tx, sealed additions, subjects []sealing) error {
	var links, spaces []sealing
	for _, one := range subjects {
		if isWorkspace(one.SubjectID) {
			spaces = append(spaces, one)
		} else {
			links = append(links, one)
		}
	}
	atOnce := sealedAtOnce
	if s.DB.Kind == db.SQLite {
		atOnce = 100 // conditions, each of which SQLite looks up by index
	}
	for chunk := range slices.Chunk(links, atOnce) {
		if err := s.eachClick(ctx, s.openClicks(tx, "link_id", chunk), sealed.addToLink); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(spaces, atOnce) {
		if err := s.eachClick(ctx, s.openClicks(tx, "workspace_id", chunk), sealed.addToWorkspace); err != nil {
			return err
		}
	}
	return nil
}

// openClicks selects the clicks of subjects, which a column names. It forces PostgreSQL to look
// those of each subject up by index, because it cannot estimate their number.
func (s *Store) openClicks(tx bun.Tx, column string, subjects []sealing) *bun.SelectQuery {
	if s.DB.Kind == db.Postgres {
		ids, from, until := make([]string, len(subjects)), make([]time.Time, len(subjects)), make([]time.Time,
			len(subjects))
		for i, one := range subjects {
			ids[i], from[i], until[i] = one.SubjectID, one.SealedAt, one.until
		}
		return tx.NewSelect().ColumnExpr("click.*").TableExpr("unnest(?::TEXT[], ?::TIMESTAMPTZ[], ?::TIMESTAMPTZ[]) "+
			"AS subject (id, since, until)", pgdialect.Array(ids), pgdialect.Array(from), pgdialect.Array(until)).
			Join("CROSS JOIN LATERAL (SELECT * FROM clicks WHERE ? = subject.id AND clicked_at >= subject.since "+
				"AND clicked_at < subject.until OFFSET 0) AS click", bun.Ident(column))
	}
	return tx.NewSelect().Model((*click.Row)(nil)).WhereGroup("", func(q *bun.SelectQuery) *bun.SelectQuery {
		for _, one := range subjects {
			q = q.WhereOr("? = ? AND clicked_at >= ? AND clicked_at < ?", bun.Ident(column), one.SubjectID,
				one.SealedAt, one.until)
		}
		return q
	})
}
