package clicksql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// details is the table of the clicks of busy days (UTC) that are over, column by column. What
// several filters keep of a year is found by looking through two columns, not by reading every
// click.
const details = "click_details"

// minDetailedClicks is the number of clicks from which the details of a day are stored by column. A
// year of days with fewer clicks has some thousand clicks, which are read one by one fast enough.
// Tests reduce it.
var minDetailedClicks = 8

// maxDetailedClicks is the maximum number of clicks of a workspace on a day that is stored by
// column. It bounds memory: each click takes about 60 bytes while its day is written. The clicks of
// larger days are read one by one. Tests reduce it.
var maxDetailedClicks = 5_000_000

// detail is a subject's clicks of a day, column by column. They are in the order of time.
type detail struct {
	subjectID string
	moments   []byte   // momentBytes of each click
	columns   []column // of the dimensions that clicks have columns of
}

// A moment is the click's quarter of an hour on its day, with its flags.
const (
	momentBytes = 2
	momentVisit = 1
	momentBot   = 2
)

func newDetail(subjectID string) *detail {
	d := &detail{subjectID: subjectID, columns: make([]column, len(click.StoredDimensions))}
	for i := range d.columns {
		d.columns[i].known = map[string]int{}
	}
	return d
}

func (d *detail) clicks() int { return len(d.moments) / momentBytes }

func (d *detail) add(c *click.Click) {
	var kind byte
	if c.IsVisit {
		kind |= momentVisit
	}
	if c.Bot {
		kind |= momentBot
	}
	d.moments = append(d.moments, click.QuarterOf(c.ClickedAt), kind)
	for i, dimension := range click.StoredDimensions {
		d.columns[i].add(c.Value(dimension.Name))
	}
}

// storedDetail is a row of the table with the selected columns.
type storedDetail struct {
	start   time.Time
	moments []byte
	columns map[click.Dimension]codes
}

// eachClick goes through the clicks that have the values.
func (d *storedDetail) eachClick(wanted map[click.Dimension]string, f func(click int, quarter byte, one click.Count)) {
	type match struct {
		codes
		code int
	}
	var matches []match
	for dimension, value := range wanted {
		column := d.columns[dimension]
		matches = append(matches, match{column, column.valueCode(value)})
	}
clicks:
	for n := range len(d.moments) / momentBytes {
		for i := range matches {
			if matches[i].clickCode(n) != matches[i].code {
				continue clicks
			}
		}
		one, kind := click.Count{Clicks: 1}, d.moments[n*momentBytes+1]
		if kind&momentVisit != 0 {
			one.Visits = 1
		}
		if kind&momentBot != 0 {
			one.Bots = 1
		}
		f(n, d.moments[n*momentBytes], one)
	}
}

// eachDetail reads the days of spans whose details are stored by column, and returns the rest of
// the spans. A day whose number of clicks has changed since is left. It returns InvalidInput if
// there were clicks that are not stored any more.
func (q *query) eachDetail(
	ctx context.Context, spans []clickstore.Range, columns []click.Dimension, f func(clickstore.Range, *storedDetail),
) (rest []clickstore.Range, err error) {
	if err := q.checkKept(ctx, spans...); err != nil {
		return nil, err
	}
	subject := q.LinkID
	if q.IsWorkspace() {
		subject = q.WorkspaceID
	}
	if subject == "" { // of several links there may be more days than clicks
		return spans, nil
	}
	for _, span := range spans {
		if today := q.store.Now().UTC().Truncate(click.Day); !span.From.Before(today) { // it is not over
			rest = append(rest, span)
			continue
		}
		stored := q.store.DB.Reading(ctx).TableExpr("? AS x", bun.Ident(details)).
			Join("JOIN click_days AS d ON d.subject_id = x.subject_id AND d.starts_at = x.starts_at AND d.clicks = "+
				"x.clicks").
			Where("x.subject_id = ?", subject).Where("x.workspace_id = ?", q.WorkspaceID).
			Where("x.starts_at >= ?", span.From.Truncate(click.Day)).Where("x.starts_at < ?", span.To)
		at := span.From
		err := eachDetailOf(ctx, stored.Order("x.starts_at"), columns, func(d *storedDetail) {
			if at.Before(d.start) {
				rest = append(rest, clickstore.Range{From: at, To: d.start})
			}
			at = d.start.Add(click.Day)
			f(span, d)
		})
		if err != nil {
			return nil, err
		}
		if at.Before(span.To) {
			rest = append(rest, clickstore.Range{From: at, To: span.To})
		}
	}
	return rest, nil
}

// eachDetailOf goes through the rows of a query of the table, which it calls x.
func eachDetailOf(ctx context.Context, q *bun.SelectQuery, columns []click.Dimension, f func(*storedDetail)) error {
	q = q.ColumnExpr("x.starts_at, x.moments")
	for _, dimension := range columns {
		q = q.ColumnExpr("x.?", bun.Ident(dimension.Definition().Column))
	}
	rows, err := q.Rows(ctx)
	if err != nil {
		return fmt.Errorf("reading clicks by column: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		d, err := scanDetails(rows.Scan, columns)
		if err != nil {
			return fmt.Errorf("reading clicks by column: %w", err)
		}
		f(d)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading clicks by column: %w", err)
	}
	return nil
}

func scanDetails(scan func(...any) error, columns []click.Dimension) (*storedDetail, error) {
	d := &storedDetail{columns: map[click.Dimension]codes{}}
	var start bun.NullTime // which also reads SQLite's texts
	texts := make([][]byte, len(columns))
	to := []any{&start, &d.moments}
	for i := range texts {
		to = append(to, &texts[i])
	}
	if err := scan(to...); err != nil {
		return nil, err
	}
	d.start = start.UTC()
	for i, dimension := range columns {
		codes, err := readCodes(texts[i], len(d.moments)/momentBytes)
		if err != nil {
			return nil, err
		}
		d.columns[dimension] = codes
	}
	return d, nil
}

// detailedAtOnce is how many workspaces are looked at between two looks for more.
const detailedAtOnce = 100

// storeDetails writes the details of sealed busy days, of workspaces and their links, by column. It
// repeats that for days with later clicks. A workspace that fails delays no other.
func (s *Store) storeDetails(ctx context.Context) (failed error) {
	for last := ""; ; {
		var spaces []clickstore.Total
		err := s.DB.NewSelect().Model(&spaces).Column("subject_id", "sealed_at", "detailed_at").
			Where("subject_id > ?", last).
			Where("subject_id = workspace_id").Where("detailed_at < sealed_at").Order("subject_id").
			Limit(detailedAtOnce).
			Scan(ctx)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("selecting days to store by column: %w", err))
		}
		if len(spaces) == 0 {
			return failed
		}
		for i := range spaces {
			if err := s.detailWorkspace(ctx, &spaces[i]); err != nil {
				failed = errors.Join(failed, fmt.Errorf("storing days of %s by column: %w", spaces[i].SubjectID, err))
			}
		}
		last = spaces[len(spaces)-1].SubjectID
	}
}

func (s *Store) detailWorkspace(ctx context.Context, t *clickstore.Total) error {
	var busy []time.Time
	until := t.SealedAt.Truncate(click.Day) // a day that is not over has more clicks later
	err := s.DB.NewSelect().Table(days).Column("starts_at").Where("subject_id = ?", t.SubjectID).
		Where("clicks >= ?", minDetailedClicks).Where("clicks <= ?", maxDetailedClicks).
		Where("starts_at >= ?", t.DetailedAt).Where("starts_at >= ?", s.ClicksSince()).Where("starts_at < ?", until).
		Order("starts_at").Scan(ctx, &busy)
	if err != nil {
		return err
	}
	for _, start := range busy {
		if err := s.detailDay(ctx, t, start.UTC()); err != nil {
			return err
		}
	}
	return s.detailedUntil(ctx, s.DB, t, until)
}

// detailDay reads a day before it locks anything. If a click is added to the day meanwhile, the
// day's count shows it.
func (s *Store) detailDay(ctx context.Context, t *clickstore.Total, start time.Time) error {
	made, err := s.readDetails(ctx, t.SubjectID, start)
	if err != nil {
		return err
	}
	if err := s.keepMonth(ctx, start); err != nil {
		return err
	}
	return s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		subjects := make([]string, len(made))
		for i, d := range made {
			subjects[i] = d.subjectID
		}
		_, err := tx.NewDelete().Table(details).Where("subject_id IN (?)", bun.In(append(subjects, ""))).
			Where("starts_at = ?", start).Exec(ctx)
		if err != nil {
			return err
		}
		if err := s.insertDetails(ctx, tx, t.SubjectID, start, made); err != nil {
			return err
		}
		return s.detailedUntil(ctx, tx, t, start.Add(click.Day))
	})
}

// detailedUntil records how far the details of a workspace are stored, unless clicks of earlier
// days have arrived meanwhile.
func (s *Store) detailedUntil(ctx context.Context, conn bun.IDB, t *clickstore.Total, until time.Time) error {
	_, err := conn.NewUpdate().Model((*clickstore.Total)(nil)).Set("detailed_at = ?", until).
		Where("subject_id = ?", t.SubjectID).Where("detailed_at = ?", t.DetailedAt).Exec(ctx)
	t.DetailedAt = until
	return err
}

// readDetails reads the clicks of a workspace on a day: for itself, and for each link with many of
// them.
func (s *Store) readDetails(ctx context.Context, workspaceID string, start time.Time) ([]*detail, error) {
	ofDay := func() *bun.SelectQuery {
		return s.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", workspaceID).
			Where("clicked_at >= ?", start).Where("clicked_at < ?", start.Add(click.Day))
	}
	var busy []string
	err := ofDay().Column("link_id").Group("link_id").Having("COUNT(*) >= ?", minDetailedClicks).Scan(ctx, &busy)
	if err != nil {
		return nil, fmt.Errorf("selecting busy links: %w", err)
	}
	whole := newDetail(workspaceID)
	made, links := []*detail{whole}, make(map[string]*detail, len(busy)) // other links take no memory
	for _, linkID := range busy {
		links[linkID] = newDetail(linkID)
		made = append(made, links[linkID])
	}
	return made, s.eachClick(ctx, ofDay().Order("clicked_at", "id"), func(c *click.Click) {
		whole.add(c)
		if d := links[c.LinkID]; d != nil {
			d.add(c)
		}
	})
}

// insertDetails writes the details of a day of a workspace.
func (s *Store) insertDetails(
	ctx context.Context, tx bun.Tx, workspaceID string, start time.Time, made []*detail,
) error {
	columns := []string{"subject_id", "starts_at", "workspace_id", "clicks", "moments"}
	for _, dimension := range click.StoredDimensions {
		columns = append(columns, dimension.Column)
	}
	return s.DB.Load(ctx, tx, s.monthTable(details, start), columns, len(made), func(i int) []any {
		one := made[i]
		values := []any{one.subjectID, start, workspaceID, int64(one.clicks()), one.moments}
		for i := range one.columns {
			values = append(values, one.columns[i].encode())
		}
		return values
	})
}

// invalidateDetails schedules the details of a workspace from a day on to be written again.
func invalidateDetails(ctx context.Context, tx bun.Tx, workspaceID string, from time.Time) error {
	_, err := tx.NewUpdate().Model((*clickstore.Total)(nil)).Set("detailed_at = ?", from).
		Where("subject_id = ?", workspaceID).Where("detailed_at > ?", from).Exec(ctx)
	return err
}

// equal reports whether the columns of a day add up to the counts of its clicks. Dimensions with
// too many values cannot be compared.
func (d *storedDetail) equal(want click.Counts) bool {
	for dimension, column := range d.columns {
		is, number := click.Values{}, dimension.Definition().Number
		d.eachClick(nil, func(click int, _ byte, one click.Count) {
			if value := column.values[column.clickCode(click)]; value != unknownValue(dimension) {
				is.Add(value, one)
			}
		})
		if len(is) <= click.MaxValues && !maps.Equal(is, want.Of(number)) {
			return false
		}
	}
	return true
}
