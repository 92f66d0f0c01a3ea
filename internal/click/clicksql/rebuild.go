package clicksql

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// subjectsAtOnce is how many subjects are looked at between two looks for more.
const subjectsAtOnce = 500

// Verify implements clickstore.Store. Each month is compared in one transaction.
func (s *Store) Verify(ctx context.Context, found func(clickstore.Difference)) (subjects int, err error) {
	return s.compareAll(ctx, false, found)
}

// Rebuild implements clickstore.Store. Ingest of a subject waits for its transactions, of a month
// each.
func (s *Store) Rebuild(ctx context.Context) (subjects int, err error) {
	return s.compareAll(ctx, true, func(clickstore.Difference) {})
}

// compareAll compares all subjects that have a total or clicks, in the order of their ids. With fix
// it corrects differences.
func (s *Store) compareAll(ctx context.Context, fix bool, found func(clickstore.Difference)) (n int, err error) {
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
			if err := s.compare(ctx, subject, fix, found); err != nil {
				return n, fmt.Errorf("processing the rollups of %s: %w", subject, err)
			}
			n++
		}
		last = ids[len(ids)-1]
	}
}

// compare compares each month of a subject, and then its total. With fix it corrects differences.
func (s *Store) compare(ctx context.Context, subject string, fix bool, found func(clickstore.Difference)) error {
	now := s.Now().UTC()
	for start := s.ClicksSince(); !start.After(now); start = start.AddDate(0, 1, 0) {
		var differs *clickstore.Difference
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			differs, err = s.compareMonth(ctx, tx, subject, start, fix)
			return err
		})
		if err != nil {
			return err
		}
		if differs != nil {
			found(*differs)
		}
	}
	return s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		t, err := s.lockTotal(ctx, tx, subject)
		if err != nil {
			return err
		}
		want, err := s.addUp(ctx, tx, t)
		// no query reads a workspace's
		isMonth := isWorkspace(subject) || t.Month == 0 || t.BeforeMonth == want.BeforeMonth
		if err != nil || t.Near(want.Tally) && t.Bots == want.Bots && isMonth {
			return err
		}
		found(clickstore.Difference{SubjectID: subject, Clicks: want.Clicks, Counted: t.Clicks})
		if fix {
			_, err = tx.NewUpdate().Model(want).Column("clicks", "bots", "last_at", "latency_mean", "latency_m2",
				"_month",
				"_before_month").WherePK().Exec(ctx)
		}
		return err
	})
}

// compareMonth compares the sums of a month with its clicks.
func (s *Store) compareMonth(
	ctx context.Context, tx bun.Tx, subject string, month time.Time, fix bool,
) (*clickstore.Difference, error) {
	t, err := s.lockTotal(ctx, tx, subject)
	if err != nil {
		return nil, err
	}
	end := month.AddDate(0, 1, 0)
	want, err := s.count(ctx, tx, t, month, clickstore.Earlier(end, t.SealedAt))
	if err != nil || len(want) == 0 { // without any click: expired months are deleted as a whole
		return nil, err
	}
	var is []day
	err = tx.NewSelect().Model(&is).Where("subject_id = ?", subject).Where("starts_at >= ?", month).
		Where("starts_at < ?", end).
		Scan(ctx)
	if err != nil {
		return nil, err
	}
	clicks := int64(0)
	for i := range is {
		clicks += is[i].Clicks
	}
	differs := !want.equal(is)
	if differs && fix {
		if err := s.rewrite(ctx, tx, subject, month, end, want); err != nil {
			return nil, err
		}
	}
	if !differs {
		differs, err = s.detailsDiffer(ctx, tx, subject, month, want)
	}
	if err != nil || !differs {
		return nil, err
	}
	if fix {
		if err := s.forgetDetails(ctx, tx, t, month, end); err != nil {
			return nil, err
		}
	}
	return &clickstore.Difference{SubjectID: subject, Month: month, Clicks: want.clicks(), Counted: clicks}, nil
}

// detailsDiffer compares the details of a subject's month with its days.
func (s *Store) detailsDiffer(
	ctx context.Context, tx bun.Tx, subject string, month time.Time, want additions,
) (bool, error) {
	var columns []click.Dimension
	for _, d := range click.StoredDimensions {
		if d.Name != click.ByLink || isWorkspace(subject) { // a link's rollups do not count by link
			columns = append(columns, d.Name)
		}
	}
	differs := false
	err := eachDetailOf(ctx, tx.NewSelect().TableExpr("? AS x", bun.Ident(details)).Where("x.subject_id = ?", subject).
		Where("x.starts_at >= ?", month).Where("x.starts_at < ?", month.AddDate(0, 1, 0)), columns,
		func(d *storedDetail) {
			one := want[dayKey{subject, d.start.Unix()}]
			differs = differs || one != nil && one.Clicks == int64(len(d.moments)/momentBytes) && !d.equal(one.counts)
		})
	return differs, err
}

// forgetDetails schedules the details of a subject's month to be written again.
func (s *Store) forgetDetails(ctx context.Context, tx bun.Tx, t *clickstore.Total, from, to time.Time) error {
	_, err := tx.NewDelete().Table(details).Where("subject_id = ?", t.SubjectID).Where("starts_at >= ?", from).
		Where("starts_at < ?", to).Exec(ctx)
	if err != nil {
		return err
	}
	return invalidateDetails(ctx, tx, t.WorkspaceID, from)
}

// rewrite replaces the days of a subject in a span of time.
func (s *Store) rewrite(ctx context.Context, tx bun.Tx, subject string, from, to time.Time, want additions) error {
	_, err := tx.NewDelete().Table(days).Where("subject_id = ?", subject).Where("starts_at >= ?", from).
		Where("starts_at < ?", to).Exec(ctx)
	if err != nil {
		return err
	}
	return s.addDays(ctx, tx, want, isNeverNew)
}

// lockTotal reads a subject's total and keeps others from writing sums of it until the transaction
// ends. It makes one when there is none.
func (s *Store) lockTotal(ctx context.Context, tx bun.Tx, subject string) (*clickstore.Total, error) {
	t := &clickstore.Total{
		SubjectID: subject, WorkspaceID: subject, LastAt: clickstore.Never, SealedAt: s.Now().UTC().Truncate(click.Day),
	}
	if !isWorkspace(subject) {
		var owners []string
		if err := tx.NewSelect().Table("clicks").Column("workspace_id").Where("link_id = ?", subject).Limit(1).
			Scan(ctx, &owners); err != nil {
			return nil, err
		}
		for _, owner := range owners {
			t.WorkspaceID = owner
		}
	}
	_, err := tx.NewInsert().Model(t).On("CONFLICT (subject_id) DO UPDATE").Set("clicks = ?TableAlias.clicks").
		Returning(clickstore.TotalColumns).Exec(ctx)
	return t, err
}

func isWorkspace(subject string) bool { return strings.HasPrefix(subject, string(id.Workspace)) }

// addUp computes the total of a subject from its days and the later clicks.
func (s *Store) addUp(ctx context.Context, tx bun.Tx, t *clickstore.Total) (*clickstore.Total, error) {
	want := &clickstore.Total{SubjectID: t.SubjectID, LastAt: t.LastAt, Month: cmp.Or(t.Month, click.MonthOf(s.Now()))}
	var rows []day
	err := tx.NewSelect().Model(&rows).ExcludeColumn("counts").Where("subject_id = ?", t.SubjectID).
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
	err = s.eachClick(ctx, clicksOf(tx, t).Where("clicked_at >= ?", t.SealedAt), func(c *click.Click) {
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
	if err := clicksOf(tx, t).ColumnExpr("MAX(clicked_at)").Scan(ctx, &last); err != nil {
		return nil, err
	}
	want.LastAt = clickstore.Later(want.LastAt, last.UTC())
	return want, nil
}

// count adds up the clicks of a subject in a span of time, one by one.
func (s *Store) count(ctx context.Context, tx bun.Tx, t *clickstore.Total, from, to time.Time) (additions, error) {
	counted := additions{}
	add := counted.addToLink
	if isWorkspace(t.SubjectID) {
		add = counted.addToWorkspace
	}
	q := clicksOf(tx, t).Where("clicked_at >= ?", from).Where("clicked_at < ?", to)
	return counted, s.eachClick(ctx, q, add)
}

// clicksOf selects the clicks of a subject.
func clicksOf(tx bun.Tx, t *clickstore.Total) *bun.SelectQuery {
	column := "link_id"
	if isWorkspace(t.SubjectID) {
		column = "workspace_id"
	}
	return tx.NewSelect().Model((*click.Row)(nil)).Where("? = ?", bun.Ident(column), t.SubjectID)
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
