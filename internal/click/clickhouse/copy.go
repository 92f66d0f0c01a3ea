package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// This file copies the clicks of the SQL database, for an instance that begins to use ClickHouse.
// Their totals stay as they are.

// copiedAtOnce bounds an insert.
const copiedAtOnce = 10_000

// Copied is what Copy has done so far.
type Copied struct {
	// Day is the day (UTC) that was copied last.
	Day time.Time
	// Clicks counts the clicks that ClickHouse lacked, Days the days of links without single
	// clicks.
	Clicks, Days int64
}

// Copy copies what ClickHouse does not have of the clicks in the SQL database, day by day, and
// calls progress after each. It can be interrupted, and repeated: servers may run meanwhile, with
// either store. A copy that begins ends those before it. Of a link that was claimed meanwhile it
// requests the move of the clicks, see MoveClicks, and it removes those of workspaces that were
// purged. It returns Conflict if months that only the SQL database has counted can no longer be
// added, or Unavailable if a month ends meanwhile.
func (s *Store) Copy(ctx context.Context, progress func(Copied)) error {
	ctx = db.AsSystem(ctx)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	number, err := s.ids.Take(ctx, s.DB, 1)
	if err != nil {
		return err
	}
	c := &copying{Store: s, run: time.UnixMicro(number), since: s.ClicksSince(), progress: progress}
	if err := s.moveBound(ctx, copyingBound, time.Time{}, c.run, always); err != nil {
		return err
	}
	c.isNewest = render("throwIf((SELECT max(at) FROM bounds WHERE name = ?) > ?, 'another copy has begun: wait for "+
		"it') = 0",
		copyingBound, c.run)
	if err := s.client.run(ctx, "SELECT ?", sql(c.isNewest)); err != nil { // else it would end the newer one
		return err
	}
	if err := s.kill(ctx, "copy"); err != nil {
		return err
	}
	if err := c.copyMonths(ctx); err != nil {
		return fmt.Errorf("copying months without single clicks: %w", err)
	}
	if err := c.copyDays(ctx); err != nil {
		return err
	}
	if err := c.endMonths(ctx); err != nil {
		return err
	}
	return s.removePurged(ctx)
}

// copying is a run of Copy.
type copying struct {
	*Store
	// run is its number, as a bound. isNewest is the condition of its inserts that no later run has
	// begun: one may arrive late.
	run      time.Time
	isNewest string
	// since is the start of the months that had single clicks when the run began. from is the later
	// of since and the bound "forgotten": earlier clicks are not copied.
	since, from time.Time
	done        Copied
	progress    func(Copied)
}

// copyDays copies the days that have single clicks.
func (c *copying) copyDays(ctx context.Context) error {
	var first, last []time.Time
	edge := c.DB.NewSelect().Model((*click.Row)(nil)).Column("clicked_at").Limit(1)
	if err := edge.Clone().Where("clicked_at >= ?", c.from).Order("clicked_at").Scan(ctx, &first); err != nil ||
		len(first) == 0 {
		return err
	}
	if err := edge.Order("clicked_at DESC").Scan(ctx, &last); err != nil {
		return err
	}
	for day := first[0].UTC().Truncate(click.Day); !day.After(last[0]); day = day.Add(click.Day) {
		if err := c.copyDay(ctx, day); err != nil {
			return fmt.Errorf("copying %s: %w", day.Format(time.DateOnly), err)
		}
		c.done.Day = day
		c.progress(c.done)
	}
	return nil
}

// copyDay copies the clicks of a day. They are written as late ones: their visits are known.
func (c *copying) copyDay(ctx context.Context, day time.Time) error {
	isKnown, unowned, err := c.copiedOf(ctx, day)
	if err != nil {
		return err
	}
	rows, err := c.DB.NewSelect().Model((*click.Row)(nil)).Where("clicked_at >= ?", day).
		Where("clicked_at < ?", day.Add(click.Day)).
		Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	var waiting []click.Click
	for rows.Next() {
		var r click.Row
		if err := c.DB.ScanRow(ctx, rows, &r); err != nil {
			return err
		}
		if isKnown[r.ID] {
			continue
		}
		if waiting = append(waiting, *r.Click()); len(waiting) == copiedAtOnce {
			if err := c.insertCopies(ctx, waiting, unowned); err != nil {
				return err
			}
			waiting = nil
		}
	}
	err = rows.Err()
	if err == nil {
		err = c.insertCopies(ctx, waiting, unowned)
	}
	if err == nil {
		err = c.settle(ctx, slices.Collect(maps.Keys(unowned)))
	}
	return err
}

// copiedOf returns the ids of the clicks of a day that ClickHouse has, and the links of those
// without an owner.
func (s *Store) copiedOf(
	ctx context.Context, day time.Time,
) (isKnown map[int64]bool, unowned map[string]bool, err error) {
	type one struct {
		ID      int64
		Unowned string
	}
	within := render("clicked_at >= ? AND clicked_at < ?", day, day.Add(click.Day))
	all, err := fetch[one](ctx, s.client,
		withSealed+"SELECT id AS ID, if(workspace_id = ?, link_id, '') AS Unowned FROM ?",
		id.PublicWorkspace, sql(singleClicks("id, workspace_id, link_id", within)))
	isKnown, unowned = make(map[int64]bool, len(all)), map[string]bool{}
	for _, c := range all {
		isKnown[c.ID] = true
		if c.Unowned != "" {
			unowned[c.Unowned] = true
		}
	}
	return isKnown, unowned, err
}

// insertCopies inserts clicks with the workspaces that their links have now, and adds the links
// without an owner to unowned. A subject without a total was purged.
func (c *copying) insertCopies(ctx context.Context, clicks []click.Click, unowned map[string]bool) error {
	workspaces, err := clickstore.WorkspacesOfLinks(ctx, c.DB, linksOf(clicks))
	if err != nil {
		return err
	}
	var rows []byte
	n := int64(0)
	for i := range clicks {
		one := &clicks[i]
		if one.WorkspaceID = workspaces[one.LinkID]; one.WorkspaceID == "" {
			continue
		}
		if one.WorkspaceID == id.PublicWorkspace {
			unowned[one.LinkID] = true
		}
		rows = appendBool(appendBool(appendClick(rows, one), one.IsVisit), true)
		n++
	}
	err = c.insertAs(ctx, "clicks", "visit, late", "visit Bool, late Bool", c.isNewest, c.statementID(), rows)
	if err == nil {
		c.done.Clicks += n
	}
	return err
}

// statementID is the ID of the next statement, by which the next run ends it.
func (c *copying) statementID() string { return c.queryID("copy", time.Now().UnixNano()) }

// settle looks at links whose clicks ClickHouse has without an owner. If a link has one now, it
// requests the move; if it was purged, it deletes the clicks. A link whose first click is being
// written has no total yet.
func (c *copying) settle(ctx context.Context, linkIDs []string) error {
	for some := range slices.Chunk(linkIDs, copiedAtOnce) {
		var purged []string
		err := c.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			workspaces, err := clickstore.WorkspacesOfLinks(ctx, tx, some)
			if err != nil {
				return err
			}
			purged = slices.DeleteFunc(slices.Clone(some), func(linkID string) bool { return workspaces[linkID] != "" })
			maps.DeleteFunc(workspaces, func(_, workspaceID string) bool { return workspaceID == id.PublicWorkspace })
			if err := queueMoves(ctx, tx, workspaces); err != nil || len(purged) == 0 {
				return err
			}
			var left []string
			err = tx.NewSelect().Table("links").Column("id").Where("id IN (?)", bun.In(purged)).Scan(ctx, &left)
			purged = slices.DeleteFunc(purged, func(linkID string) bool { return slices.Contains(left, linkID) })
			return err
		})
		if err == nil && len(purged) > 0 {
			of := render("workspace_id = ? AND link_id IN (?)", id.PublicWorkspace, sql(joined(purged)))
			err = c.remove(ctx, of, "clicks_open", "clicks")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removePurged removes the clicks of workspaces that nodes without ClickHouse have purged after
// they were copied.
func (s *Store) removePurged(ctx context.Context) error {
	spaces, err := fetch[struct{ ID string }](ctx, s.client,
		"SELECT DISTINCT workspace_id AS ID FROM clicks UNION DISTINCT "+
			"SELECT workspace_id FROM clicks_open UNION DISTINCT SELECT workspace_id FROM days")
	if err != nil || len(spaces) == 0 {
		return err
	}
	ids := make([]string, len(spaces))
	for i := range spaces {
		ids[i] = spaces[i].ID
	}
	var purged []string
	err = s.DB.NewSelect().Table("workspaces").Column("id").Where("id IN (?)", bun.In(ids)).
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
