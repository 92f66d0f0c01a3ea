package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/month"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/workspace"
)

// This file copies the clicks of the SQL database, for an instance that begins to use ClickHouse. Their totals stay as they are.

// copiedAtOnce bounds an insert.
const copiedAtOnce = 10_000

// Copied is what Copy has done so far.
type Copied struct {
	// Day is the day (UTC) that was copied last.
	Day time.Time
	// Clicks are those that ClickHouse did not have, Days the days of links without single clicks.
	Clicks, Days int64
}

// Copy copies what ClickHouse does not have of the clicks in the SQL database, day by day, and calls progress after each. It can
// be interrupted, and repeated: servers may run meanwhile, with either store. One process calls it at a time. Of a link that was
// claimed meanwhile it requests the move of the clicks, see MoveClicks, and it removes those of workspaces that were purged.
func (s *Store) Copy(ctx context.Context, progress func(Copied)) error {
	ctx = db.AsSystem(ctx)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.kill(ctx, "copy"); err != nil {
		return err
	}
	var done Copied
	if err := s.copyMonths(ctx, &done); err != nil {
		return fmt.Errorf("copying months without single clicks: %w", err)
	}
	if err := s.copyDays(ctx, &done, progress); err != nil {
		return err
	}
	return s.removePurged(ctx)
}

// copyDays copies the days that have single clicks.
func (s *Store) copyDays(ctx context.Context, done *Copied, progress func(Copied)) error {
	var first, last []time.Time
	edge := s.DB.NewSelect().Model((*click.Row)(nil)).Column("clicked_at").Limit(1)
	if err := edge.Clone().Where("clicked_at >= ?", s.ClicksSince()).Order("clicked_at").Scan(ctx, &first); err != nil || len(first) == 0 {
		return err
	}
	if err := edge.Order("clicked_at DESC").Scan(ctx, &last); err != nil {
		return err
	}
	for day := first[0].UTC().Truncate(click.Day); !day.After(last[0]); day = day.Add(click.Day) {
		if err := s.copyDay(ctx, day, done); err != nil {
			return fmt.Errorf("copying %s: %w", day.Format(time.DateOnly), err)
		}
		done.Day = day
		progress(*done)
	}
	return nil
}

// removePurged removes the clicks of workspaces that nodes without ClickHouse have purged after they were copied.
func (s *Store) removePurged(ctx context.Context) error {
	spaces, err := fetch[struct{ ID string }](ctx, s.client, "SELECT DISTINCT workspace_id AS ID FROM clicks UNION DISTINCT "+
		"SELECT workspace_id FROM clicks_open UNION DISTINCT SELECT workspace_id FROM days")
	if err != nil || len(spaces) == 0 {
		return err
	}
	ids := make([]string, len(spaces))
	for i := range spaces {
		ids[i] = spaces[i].ID
	}
	var purged []string
	err = s.DB.NewSelect().Model((*workspace.Workspace)(nil)).Column("id").Where("id IN (?)", bun.In(ids)).
		Where("purged_at IS NOT NULL").Scan(ctx, &purged)
	if err != nil {
		return fmt.Errorf("selecting purged workspaces: %w", err)
	}
	for _, id := range purged {
		if err := s.PurgeWorkspace(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// copyDay copies the clicks of a day. They are written as late ones: their visits are known.
func (s *Store) copyDay(ctx context.Context, day time.Time, done *Copied) error {
	isKnown, unowned, err := s.copiedOf(ctx, day)
	if err != nil {
		return err
	}
	rows, err := s.DB.NewSelect().Model((*click.Row)(nil)).Where("clicked_at >= ?", day).Where("clicked_at < ?", day.Add(click.Day)).
		Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	var waiting []byte
	n := int64(0)
	flush := func() error {
		attempt, err := s.ids.Take(ctx, s.DB, 1)
		if err == nil {
			err = s.insertAs(ctx, "clicks", "visit, late", "visit Bool, late Bool", unfenced(attempt), s.queryID("copy", attempt), waiting)
		}
		done.Clicks += n
		waiting, n = waiting[:0], 0
		return err
	}
	for rows.Next() {
		var r click.Row
		if err := s.DB.ScanRow(ctx, rows, &r); err != nil {
			return err
		}
		if isKnown[r.ID] {
			continue
		}
		c := r.Click()
		if c.WorkspaceID == workspace.PublicID {
			unowned[c.LinkID] = true
		}
		waiting = appendBool(appendBool(appendClick(waiting, c), c.IsVisit), true)
		if n++; n == copiedAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	err = rows.Err()
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = s.queueClaimed(ctx, slices.Collect(maps.Keys(unowned)))
	}
	return err
}

// copiedOf returns the ids of the clicks of a day that ClickHouse has, and the links of those without an owner.
func (s *Store) copiedOf(ctx context.Context, day time.Time) (isKnown map[int64]bool, unowned map[string]bool, err error) {
	type one struct {
		ID      int64
		Unowned string
	}
	within := render("clicked_at >= ? AND clicked_at < ?", day, day.Add(click.Day))
	all, err := fetch[one](ctx, s.client, withSealed+"SELECT id AS ID, if(workspace_id = ?, link_id, '') AS Unowned FROM ?",
		workspace.PublicID, sql(singleClicks("id, workspace_id, link_id", within)))
	isKnown, unowned = make(map[int64]bool, len(all)), map[string]bool{}
	for _, c := range all {
		isKnown[c.ID] = true
		if c.Unowned != "" {
			unowned[c.Unowned] = true
		}
	}
	return isKnown, unowned, err
}

// queueClaimed requests the moves of those links whose clicks were copied as clicks without an owner, and that have one.
func (s *Store) queueClaimed(ctx context.Context, linkIDs []string) error {
	for some := range slices.Chunk(linkIDs, copiedAtOnce) {
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			workspaces, err := clickledger.Workspaces(ctx, tx, some)
			if err != nil {
				return err
			}
			maps.DeleteFunc(workspaces, func(_, id string) bool { return id == workspace.PublicID })
			return queueMoves(ctx, tx, workspaces)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sqlDay is a day of a link in the SQL database.
type sqlDay struct {
	WorkspaceID, SubjectID string
	StartsAt               time.Time
	rollup.Tally
	Visits, Bots int64
	Counts       []byte
}

// copyMonths copies the days of months without single clicks, and then moves the bound over them.
func (s *Store) copyMonths(ctx context.Context, done *Copied) error {
	bounds, err := s.bounds(ctx)
	forgotten, since := bounds[forgottenBound], s.ClicksSince()
	if err != nil || !forgotten.Before(since) {
		return err
	}
	var first []time.Time
	err = s.DB.NewSelect().Table("click_days").Column("starts_at").Where("starts_at >= ?", forgotten).Order("starts_at").Limit(1).
		Scan(ctx, &first)
	if err != nil || len(first) == 0 || !first[0].Before(since) {
		return err
	}
	for m := month.Of(first[0]); m.Start().Before(since); m++ {
		if err := s.removeDays(ctx, m); err != nil {
			return err
		}
		if err := s.copyMonth(ctx, m, done); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return s.moveBound(ctx, forgottenBound, forgotten, since)
}

func (s *Store) copyMonth(ctx context.Context, m month.Month, done *Copied) error {
	rows, err := s.DB.NewSelect().Table("click_days").Column("workspace_id", "subject_id", "starts_at", "clicks", "visits", "bots",
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
		_, err := s.client.send(ctx, "INSERT INTO days FORMAT RowBinary", waiting, "query_id", s.queryID("copy", time.Now().UnixNano()))
		waiting = waiting[:0]
		return err
	}
	const most = 4 << 20
	for rows.Next() {
		var d sqlDay
		if err := s.DB.ScanRow(ctx, rows, &d); err != nil {
			return err
		}
		if waiting, err = appendDay(waiting, &d); err != nil {
			return err
		}
		if done.Days++; len(waiting) > most {
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

// appendDay writes the rows of a day.
func appendDay(b []byte, d *sqlDay) ([]byte, error) {
	add := func(dimension byte, value string, n rollup.Count, t rollup.Tally) {
		b = rollup.AppendText(rollup.AppendText(b, d.WorkspaceID), d.SubjectID)
		day := uint16(click.DayOf(d.StartsAt))
		b = rollup.AppendText(append(b, byte(day), byte(day>>8), dimension), value)
		b = appendInt(appendInt(appendInt(b, n.Clicks), n.Visits), n.Bots)
		b = appendFloat(appendFloat(b, t.LatencyMean), t.LatencyM2)
	}
	all := rollup.Count{Clicks: d.Clicks, Visits: d.Visits, Bots: d.Bots}
	add(0, "", all, d.Tally)
	rest := map[byte]rollup.Count{}
	for _, dimension := range click.StoredDimensions {
		if dimension.Name != click.ByLink {
			rest[dimension.Number] = all
		}
	}
	err := rollup.EachCount(d.Counts, 0, func(dimension byte, value []byte, n rollup.Count) {
		text := string(value)
		if left, ok := rest[dimension]; ok {
			left.Add(rollup.Count{Clicks: -n.Clicks, Visits: -n.Visits, Bots: -n.Bots})
			rest[dimension] = left
		} else if len(value) == 1 {
			text = strconv.Itoa(int(value[0]))
		}
		add(dimension, text, n, rollup.Tally{})
	})
	for dimension, n := range rest { // clicks of values that are not known
		if n != (rollup.Count{}) {
			value := ""
			if dimension == click.StatusDimension {
				value = strconv.Itoa(rollup.CommonStatus)
			}
			add(dimension, value, n, rollup.Tally{})
		}
	}
	return b, err
}
