package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// copyMonths copies the days of months that have no single clicks. It does so only until a run has
// succeeded: ClickHouse itself counts the months that end later.
func (c *copying) copyMonths(ctx context.Context) error {
	bounds, err := c.bounds(ctx)
	c.from = clickstore.Later(c.since, bounds[forgottenBound])
	if err != nil || bounds[copiedBound].After(never) {
		return err
	}
	var first []time.Time
	err = c.DB.NewSelect().Table("click_days").Column("starts_at").Order("starts_at").Limit(1).Scan(ctx, &first)
	if err != nil || len(first) == 0 || !first[0].Before(c.since) {
		return err
	}
	counts, err := c.countsMonths(ctx, bounds)
	if err != nil {
		return err
	}
	if counts {
		return errs.New(errs.Conflict,
			"ClickHouse has clicks of its own of months whose single clicks PostgreSQL has deleted, so what "+
				"PostgreSQL has counted of these cannot be added. Copy before nodes use ClickHouse.")
	}
	for m := click.MonthOf(first[0]); m.Start().Before(c.since); m++ {
		if err := c.removeDays(ctx, m, until(copyingBound, c.run)); err != nil {
			return err
		}
		if err := c.copyMonth(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// countsMonths reports whether ClickHouse counts months itself that have no single clicks in the
// SQL database.
func (c *copying) countsMonths(ctx context.Context, bounds map[string]time.Time) (bool, error) {
	own, err := c.has(ctx, "clicks", render("clicked_at < ? AND NOT late", c.since))
	return own || bounds[forgottenBound].After(never), err
}

// endMonths moves the bounds, from when on questions read the copied days. It returns Unavailable
// if a month has expired since the run began.
func (c *copying) endMonths(ctx context.Context) error {
	if c.since != c.ClicksSince() {
		return errs.New(errs.Unavailable, "A month has ended during the copy: run it again.")
	}
	bounds, err := c.bounds(ctx)
	if err != nil {
		return err
	}
	if !bounds[copiedBound].After(never) {
		counts, err := c.countsMonths(ctx, bounds)
		if err != nil || counts { // and the SQL database has counted none
			return err
		}
		bounds[copiedBound] = c.since
		if err := c.moveBound(ctx, copiedBound, never, c.since, c.isNewest, "query_id", c.statementID()); err != nil {
			return err
		}
	}
	return c.moveBound(ctx, forgottenBound, bounds[forgottenBound], bounds[copiedBound], c.isNewest, "query_id",
		c.statementID())
}

// sqlDay is a day of a link in the SQL database.
type sqlDay struct {
	WorkspaceID, SubjectID string
	StartsAt               time.Time
	click.Tally
	Visits, Bots int64
	Counts       []byte
}

func (c *copying) copyMonth(ctx context.Context, m click.Month) error {
	rows, err := c.DB.NewSelect().Table("click_days").Column("workspace_id", "subject_id", "starts_at", "clicks",
		"visits", "bots",
		"latency_mean", "latency_m2", "counts").Where("starts_at >= ?", m.Start()).Where("starts_at < ?", m.End()).
		Where("subject_id <> workspace_id").Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	var waiting []byte
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		_, err := c.client.send(ctx,
			render("INSERT INTO days SELECT * FROM input(?) WHERE ? FORMAT RowBinary", dayTypes, sql(c.isNewest)),
			waiting, "query_id", c.statementID())
		waiting = waiting[:0]
		return err
	}
	const most = 4 << 20
	for rows.Next() {
		var d sqlDay
		if err := c.DB.ScanRow(ctx, rows, &d); err != nil {
			return err
		}
		if waiting, err = appendDay(waiting, &d); err != nil {
			return err
		}
		if c.done.Days++; len(waiting) > most {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return flush()
}

// dayTypes are the columns of days, as appendDay writes them.
const dayTypes = "workspace_id String, link_id String, day Date, dimension UInt8, value String, clicks Int64, visits " +
	"Int64, bots Int64, " +
	"latency_mean Float64, latency_m2 Float64"

// appendDay writes the rows of a day.
func appendDay(b []byte, d *sqlDay) ([]byte, error) {
	add := func(dimension byte, value string, n click.Count, t click.Tally) {
		b = click.AppendText(click.AppendText(b, d.WorkspaceID), d.SubjectID)
		day := uint16(click.DayOf(d.StartsAt))
		b = click.AppendText(append(b, byte(day), byte(day>>8), dimension), value)
		b = appendInt(appendInt(appendInt(b, n.Clicks), n.Visits), n.Bots)
		b = appendFloat(appendFloat(b, t.LatencyMean), t.LatencyM2)
	}
	all := click.Count{Clicks: d.Clicks, Visits: d.Visits, Bots: d.Bots}
	add(0, "", all, d.Tally)
	rest := map[byte]click.Count{}
	for _, dimension := range click.StoredDimensions {
		if dimension.Name != click.ByLink {
			rest[dimension.Number] = all
		}
	}
	err := click.EachCount(d.Counts, 0, func(dimension byte, value []byte, n click.Count) {
		text := string(value)
		if left, ok := rest[dimension]; ok {
			left.Add(click.Count{Clicks: -n.Clicks, Visits: -n.Visits, Bots: -n.Bots})
			rest[dimension] = left
		} else if len(value) == 1 {
			text = strconv.Itoa(int(value[0]))
		}
		add(dimension, text, n, click.Tally{})
	})
	for dimension, n := range rest { // clicks of values that are not known
		if n != (click.Count{}) {
			value := ""
			if dimension == click.StatusDimension {
				value = strconv.Itoa(click.CommonStatus)
			}
			add(dimension, value, n, click.Tally{})
		}
	}
	return b, err
}
