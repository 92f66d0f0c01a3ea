package clicksql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// subjectsAtOnce is how many subjects a statement selects.
const subjectsAtOnce = 500

// Verify implements clickstore.Store. Each subject is compared as it is at one instant, and nothing
// is written or locked.
func (s *Store) Verify(ctx context.Context, found func(clickstore.Difference)) (subjects int, err error) {
	return s.eachSubject(ctx, func(ctx context.Context, subject string) error {
		differences, err := s.compare(ctx, subject)
		for _, d := range differences {
			found(d)
		}
		return err
	})
}

// Rebuild implements clickstore.Store. Ingest of a subject that differs waits for its transactions,
// of a month each.
func (s *Store) Rebuild(ctx context.Context) (subjects int, err error) {
	return s.eachSubject(ctx, func(ctx context.Context, subject string) error {
		differences, err := s.compare(ctx, subject)
		if err != nil || len(differences) == 0 {
			return err
		}
		return s.correct(ctx, subject)
	})
}

// eachSubject calls f for all subjects that have a total or clicks, in the order of their ids, and
// returns their number.
func (s *Store) eachSubject(ctx context.Context, f func(ctx context.Context, subject string) error) (n int, err error) {
	ctx = db.AsSystem(ctx)
	for last := ""; ; {
		var ids []string
		totals := s.DB.NewSelect().Model((*clickstore.Total)(nil)).Column("subject_id").Where("subject_id > ?", last)
		links := s.DB.NewSelect().Distinct().Table("clicks").ColumnExpr("link_id").Where("link_id > ?", last)
		spaces := s.DB.NewSelect().Distinct().Table("clicks").ColumnExpr("workspace_id").
			Where("workspace_id > ?", last).Where("workspace_id <> ?", id.PublicWorkspace)
		all := totals.Union(links).Union(spaces)
		err := s.DB.NewSelect().TableExpr("(?) AS subjects", all).Column("subject_id").Order("subject_id").
			Limit(subjectsAtOnce).Scan(ctx, &ids)
		if err != nil {
			return n, fmt.Errorf("selecting subjects with clicks: %w", err)
		}
		if len(ids) == 0 {
			return n, nil
		}
		for _, subject := range ids {
			if err := f(ctx, subject); err != nil {
				return n, fmt.Errorf("processing the rollups of %s: %w", subject, err)
			}
			n++
		}
		last = ids[len(ids)-1]
	}
}

// newSelect begins a query of a transaction, or of one instant of the database.
type newSelect func() *bun.SelectQuery

// compare returns what differs of a subject at one instant: months, and then the total.
func (s *Store) compare(ctx context.Context, subject string) (differences []clickstore.Difference, err error) {
	err = s.DB.AtOneInstant(ctx, func(ctx context.Context) error {
		query := func() *bun.SelectQuery { return s.DB.Reading(ctx) }
		t, err := s.readTotal(ctx, query, subject)
		if err != nil {
			return err
		}
		read, err := s.readDays(ctx, query, t, s.ClicksSince(), click.MonthOf(s.Now()).Start().AddDate(0, 1, 0))
		if err != nil {
			return err
		}
		for _, month := range read.months() {
			one := read.of(month)
			if one.differs() {
				differences = append(differences, clickstore.Difference{
					SubjectID: subject, Month: month, Clicks: one.want.clicks(), Counted: one.clicks(),
				})
			}
		}
		want, err := s.addUp(ctx, query, t)
		if err == nil && totalDiffers(t, want) {
			differences = append(differences,
				clickstore.Difference{SubjectID: subject, Clicks: want.Clicks, Counted: t.Clicks})
		}
		return err
	})
	return differences, err
}

func totalDiffers(t, want *clickstore.Total) bool {
	// no query reads a workspace's
	isMonth := isWorkspace(t.SubjectID) || t.Month == 0 || t.BeforeMonth == want.BeforeMonth
	return !t.Near(want.Tally) || t.Bots != want.Bots || !isMonth
}

// correct counts each month of a subject that differs again, and then its total.
func (s *Store) correct(ctx context.Context, subject string) error {
	now := s.Now().UTC()
	for start := s.ClicksSince(); !start.After(now); start = start.AddDate(0, 1, 0) {
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			return s.correctMonth(ctx, tx, subject, start)
		})
		if err != nil {
			return err
		}
	}
	return s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		t, err := s.lockTotal(ctx, tx, subject)
		if err != nil {
			return err
		}
		want, err := s.addUp(ctx, tx.NewSelect, t)
		if err != nil || !totalDiffers(t, want) {
			return err
		}
		_, err = tx.NewUpdate().Model(want).Column("clicks", "bots", "last_at", "latency_mean", "latency_m2", "_month",
			"_before_month").WherePK().Exec(ctx)
		return err
	})
}

// correctMonth writes the days of a month again if they differ from its clicks.
func (s *Store) correctMonth(ctx context.Context, tx bun.Tx, subject string, month time.Time) error {
	t, err := s.lockTotal(ctx, tx, subject)
	if err != nil {
		return err
	}
	end := month.AddDate(0, 1, 0)
	one, err := s.readDays(ctx, tx.NewSelect, t, month, end)
	if err != nil || !one.differs() {
		return err
	}
	_, err = tx.NewDelete().Table(days).Where("subject_id = ?", subject).Where("starts_at >= ?", month).
		Where("starts_at < ?", end).Exec(ctx)
	if err != nil {
		return err
	}
	return s.addDays(ctx, tx, one.want, isNeverNew)
}

// comparison has the days of a subject: those that its clicks add up to, and the stored ones.
type comparison struct {
	want   additions
	stored []day
}

// readDays reads the days of a subject in a span of time, and its clicks as far as they are sealed.
func (s *Store) readDays(
	ctx context.Context, read newSelect, t *clickstore.Total, from, end time.Time,
) (found comparison, err error) {
	if found.want, err = s.count(ctx, read, t, from, clickstore.Earlier(end, t.SealedAt)); err != nil {
		return found, err
	}
	err = read().Model(&found.stored).Where("subject_id = ?", t.SubjectID).Where("starts_at >= ?", from).
		Where("starts_at < ?", end).Scan(ctx)
	return found, err
}

// months are those that have clicks: without any, the clicks of a month may have expired, and are
// deleted as a whole.
func (c *comparison) months() (months []time.Time) {
	for key := range c.want {
		months = append(months, click.MonthOf(time.Unix(key.start, 0)).Start())
	}
	slices.SortFunc(months, time.Time.Compare)
	return slices.CompactFunc(months, time.Time.Equal)
}

// of returns the comparison of a month.
func (c *comparison) of(month time.Time) *comparison {
	isIn := func(at time.Time) bool { return click.MonthOf(at).Start().Equal(month) }
	one := &comparison{want: additions{}}
	for key, sum := range c.want {
		if isIn(time.Unix(key.start, 0)) {
			one.want[key] = sum
		}
	}
	for i := range c.stored {
		if isIn(c.stored[i].StartsAt) {
			one.stored = append(one.stored, c.stored[i])
		}
	}
	return one
}

// differs reports whether stored days differ from those of the clicks, if there are any.
func (c *comparison) differs() bool { return len(c.want) > 0 && !c.want.equal(c.stored) }

// clicks is how many clicks the stored days count.
func (c *comparison) clicks() (n int64) {
	for i := range c.stored {
		n += c.stored[i].Clicks
	}
	return n
}

// lockTotal reads a subject's total and keeps others from writing days of it until the transaction
// ends. It creates one if there is none.
func (s *Store) lockTotal(ctx context.Context, tx bun.Tx, subject string) (*clickstore.Total, error) {
	t, err := s.newTotal(ctx, tx.NewSelect, subject)
	if err != nil {
		return nil, err
	}
	_, err = tx.NewInsert().Model(t).On("CONFLICT (subject_id) DO UPDATE").Set("clicks = ?TableAlias.clicks").
		Returning(clickstore.TotalColumns).Exec(ctx)
	return t, err
}

// readTotal reads a subject's total; that of none counts nothing.
func (s *Store) readTotal(ctx context.Context, read newSelect, subject string) (*clickstore.Total, error) {
	t := &clickstore.Total{}
	err := read().Model(t).Where("subject_id = ?", subject).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return s.newTotal(ctx, read, subject)
	}
	return t, err
}

// newTotal returns the total of a subject that has none.
func (s *Store) newTotal(ctx context.Context, read newSelect, subject string) (*clickstore.Total, error) {
	t := &clickstore.Total{
		SubjectID: subject, WorkspaceID: subject, LastAt: clickstore.Never, SealedAt: s.Now().UTC().Truncate(click.Day),
	}
	if isWorkspace(subject) {
		return t, nil
	}
	var owners []string
	if err := read().Table("clicks").Column("workspace_id").Where("link_id = ?", subject).Limit(1).
		Scan(ctx, &owners); err != nil {
		return nil, err
	}
	for _, owner := range owners {
		t.WorkspaceID = owner
	}
	return t, nil
}

func isWorkspace(subject string) bool { return strings.HasPrefix(subject, string(id.Workspace)) }

// addUp computes the total of a subject from its days and the later clicks.
func (s *Store) addUp(ctx context.Context, read newSelect, t *clickstore.Total) (*clickstore.Total, error) {
	want := &clickstore.Total{SubjectID: t.SubjectID, LastAt: t.LastAt, Month: cmp.Or(t.Month, click.MonthOf(s.Now()))}
	var rows []day
	err := read().Model(&rows).ExcludeColumn("counts").Where("subject_id = ?", t.SubjectID).
		Where("starts_at < ?", t.SealedAt).Scan(ctx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if click.MonthOf(rows[i].StartsAt) < want.Month {
			want.BeforeMonth += rows[i].Clicks
		}
		want.Tally.Merge(rows[i].Tally)
		want.Bots += rows[i].Bots
		want.LastAt = clickstore.Later(want.LastAt, rows[i].StartsAt.UTC())
	}
	err = s.eachClick(ctx, clicksOf(read, t).Where("clicked_at >= ?", t.SealedAt), func(c *click.Click) {
		if click.MonthOf(c.ClickedAt) < want.Month {
			want.BeforeMonth++
		}
		want.Tally.Add(c.LatencyMs)
		want.Bots += countOf(c).Bots
	})
	if err != nil {
		return nil, err
	}
	var last bun.NullTime
	if err := clicksOf(read, t).ColumnExpr("MAX(clicked_at)").Scan(ctx, &last); err != nil {
		return nil, err
	}
	want.LastAt = clickstore.Later(want.LastAt, last.UTC())
	return want, nil
}

// count adds up the clicks of a subject in a span of time, one by one.
func (s *Store) count(ctx context.Context, read newSelect, t *clickstore.Total, from, to time.Time) (additions, error) {
	counted := additions{}
	add := counted.addToLink
	if isWorkspace(t.SubjectID) {
		add = counted.addToWorkspace
	}
	q := clicksOf(read, t).Where("clicked_at >= ?", from).Where("clicked_at < ?", to)
	return counted, s.eachClick(ctx, q, add)
}

// clicksOf selects the clicks of a subject.
func clicksOf(read newSelect, t *clickstore.Total) *bun.SelectQuery {
	column := "link_id"
	if isWorkspace(t.SubjectID) {
		column = "workspace_id"
	}
	return read().Model((*click.Row)(nil)).Where("? = ?", bun.Ident(column), t.SubjectID)
}

// equal reports whether rows have the same counts; latencies may differ by rounding errors.
func (a additions) equal(rows []day) bool {
	if len(a) != len(rows) {
		return false
	}
	for i := range rows {
		one := a[dayKey{rows[i].SubjectID, rows[i].StartsAt.Unix()}]
		if one == nil || !one.Near(rows[i].Tally) || one.Visits != rows[i].Visits || one.Bots != rows[i].Bots {
			return false
		}
		is := click.Counts{}
		if err := is.AddEncoded(rows[i].Counts); err != nil || !is.Equal(one.counts.Kept()) {
			return false
		}
	}
	return true
}
