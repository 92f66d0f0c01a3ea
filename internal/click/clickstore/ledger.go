package clickstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Ledger reads the counts of clicks in the SQL database, whichever store has the clicks themselves:
// the totals of links and workspaces, and the positions of click logs. Stores change both, and the
// list of written batches, in the transaction that makes a batch count.
type Ledger struct{ DB *db.DB }

// LinkTotal is what users see of the total of a link.
type LinkTotal struct {
	click.Tally
	// LastAt is the latest click, if there is one.
	LastAt time.Time
}

// Totals reads the tallies of links since they were made. Links without a click are missing from
// the answer. The context has entered the workspace.
func (l *Ledger) Totals(ctx context.Context, workspaceID string, linkIDs ...string) (map[string]LinkTotal, error) {
	var rows []Total
	q := l.DB.Reading(ctx).Model(&rows).Where("subject_id IN (?)", bun.In(linkIDs))
	if err := l.DB.Recheck(q, "workspace_id", workspaceID).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading click totals: %w", err)
	}
	totals := make(map[string]LinkTotal, len(rows))
	for _, row := range rows {
		totals[row.SubjectID] = LinkTotal{row.Tally, row.LastAt.UTC()}
	}
	return totals, nil
}

// LinkCounts are the clicks that links have had, ever, as the connection sees them. Links without a
// click are missing from the answer.
func LinkCounts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error) {
	var rows []Total
	err := conn.NewSelect().Model(&rows).Column("subject_id", "clicks").Where("subject_id IN (?)", bun.In(linkIDs)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting clicks of links: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.SubjectID] = row.Clicks
	}
	return counts, nil
}

// Platform is the tally of the whole instance; its mean is weighted by the count.
func (l *Ledger) Platform(ctx context.Context) (click.Tally, error) {
	var t click.Tally
	err := l.DB.NewSelect().Model((*Total)(nil)).
		ColumnExpr("CAST(COALESCE(SUM(clicks), 0) AS BIGINT) AS clicks").
		ColumnExpr("CAST(COALESCE(SUM(latency_mean * clicks) / NULLIF(SUM(clicks), 0), 0) AS DOUBLE PRECISION) AS "+
							"latency_mean").
		Where("subject_id <> workspace_id"). // a workspace's are its links'
		Scan(db.AsSystem(ctx), &t.Clicks, &t.LatencyMean)
	if err != nil {
		return click.Tally{}, fmt.Errorf("rolling up clicks: %w", err)
	}
	return t, nil
}

// UnknownWorkspaces returns the workspaces of clicks that do not exist, or are purged.
func (l *Ledger) UnknownWorkspaces(ctx context.Context, clicks []click.Click) (map[string]bool, error) {
	unknown := map[string]bool{}
	for i := range clicks {
		unknown[clicks[i].WorkspaceID] = true
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	var known []string
	err := l.DB.NewSelect().Table("workspaces").Column("id").
		Where("id IN (?)", bun.In(slices.Collect(maps.Keys(unknown)))).
		Where("purged_at IS NULL").Scan(db.AsSystem(ctx), &known)
	if err != nil {
		return nil, fmt.Errorf("looking up the workspaces of clicks: %w", err)
	}
	for _, workspaceID := range known {
		delete(unknown, workspaceID)
	}
	return unknown, nil
}

// Position returns the end of the part of a log whose clicks count; zero for a log that is not
// known.
func (l *Ledger) Position(ctx context.Context, logID string) (position int64, err error) {
	err = l.DB.NewSelect().Table("click_logs").Column("position").Where("id = ?", logID).
		Scan(db.AsSystem(ctx), &position)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return position, err
}

// AdvancePosition moves the log's position forward, and returns the previous one. It locks the
// position's row first, so that it waits for other writers of the same log, such as a commit whose
// caller has given up.
func AdvancePosition(ctx context.Context, tx bun.Tx, logID string, position int64) (before int64, err error) {
	err = tx.NewRaw(`INSERT INTO click_logs AS l (id, position) VALUES (?, 0)
		ON CONFLICT (id) DO UPDATE SET position = l.position RETURNING position`, logID).Scan(ctx, &before)
	if err != nil || before >= position {
		return before, err
	}
	_, err = tx.NewUpdate().Table("click_logs").Set("position = ?", position).Where("id = ?", logID).Exec(ctx)
	return before, err
}

// Announce lists the written clicks, whose IDs are consecutive, for subscribers.
func Announce(ctx context.Context, tx bun.Tx, clicks []click.Click, now time.Time) error {
	first, last := clicks[0].ClickedAt, clicks[0].ClickedAt
	for i := range clicks {
		if clicks[i].ClickedAt.Before(first) {
			first = clicks[i].ClickedAt
		}
		if clicks[i].ClickedAt.After(last) {
			last = clicks[i].ClickedAt
		}
	}
	_, err := tx.NewRaw(
		"INSERT INTO click_batches (first_id, last_id, first_at, last_at, written_at) VALUES (?, ?, ?, "+
			"?, ?)",
		clicks[0].ID, clicks[len(clicks)-1].ID, db.Instant(first), db.Instant(last), db.Instant(now)).Exec(ctx)
	return err
}

// WorkspacesOfLinks returns the workspaces that links belong to, as far as their totals know.
func WorkspacesOfLinks(ctx context.Context, conn bun.IDB, linkIDs []string) (map[string]string, error) {
	var rows []Total
	err := conn.NewSelect().Model(&rows).Column("subject_id", "workspace_id").Where("subject_id IN (?)",
		bun.In(linkIDs)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces of links: %w", err)
	}
	found := make(map[string]string, len(rows))
	for _, row := range rows {
		found[row.SubjectID] = row.WorkspaceID
	}
	return found, nil
}

// AddTotals adds clicks to the totals of their links and workspaces, and gives them the workspaces
// that their links belong to now. It returns those of links that have moved. Links come first and
// workspaces last, each in the order of their IDs, so that concurrent writers do not deadlock.
func AddTotals(ctx context.Context, tx bun.Tx, clicks []click.Click) (moved map[string]string, err error) {
	links := TotalsOfLinks(clicks)
	if err := MergeTotals(ctx, tx, links); err != nil {
		return nil, err
	}
	moved = Follow(links, clicks)
	return moved, MergeTotals(ctx, tx, TotalsOfWorkspaces(clicks))
}

// Follow sets the workspaces of clicks to those of their links' totals, because a link may have
// moved since its clicks were recorded. It returns the workspaces of those links.
func Follow(totals []Total, clicks []click.Click) (moved map[string]string) {
	workspaces := make(map[string]string, len(totals))
	for _, t := range totals {
		workspaces[t.SubjectID] = t.WorkspaceID
	}
	moved = map[string]string{}
	for i := range clicks {
		if now := workspaces[clicks[i].LinkID]; clicks[i].WorkspaceID != now {
			clicks[i].WorkspaceID, moved[clicks[i].LinkID] = now, now
		}
	}
	return moved
}

// MoveTotals moves the total of a link without an account to a workspace, or makes one there:
// clicks that are not written yet find their workspace by it. It adds the total to that of the
// workspace, and returns both; that of the workspace is nil if the link has no clicks.
func MoveTotals(
	ctx context.Context, tx bun.Tx, linkID, workspaceID string, now time.Time,
) (link, space *Total, err error) {
	link = &Total{SubjectID: linkID, WorkspaceID: workspaceID, LastAt: Never, SealedAt: now.UTC().Truncate(click.Day)}
	_, err = tx.NewInsert().Model(link).On("CONFLICT (subject_id) DO UPDATE").
		Set("workspace_id = excluded.workspace_id").Returning(TotalColumns).Exec(ctx)
	if err != nil || link.Clicks == 0 {
		return link, nil, err
	}
	merged := []Total{*link}
	merged[0].SubjectID = workspaceID
	return link, &merged[0], MergeTotals(ctx, tx, merged)
}

// PurgeTotals deletes the totals of a workspace and its links.
func PurgeTotals(ctx context.Context, conn bun.IDB, workspaceID string) error {
	if _, err := conn.NewDelete().Model((*Total)(nil)).Where("workspace_id = ?", workspaceID).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the totals of a workspace: %w", err)
	}
	return nil
}
