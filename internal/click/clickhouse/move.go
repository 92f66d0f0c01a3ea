package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// moveRow is a link whose clicks are still to be moved to its workspace.
type moveRow struct {
	bun.BaseModel `bun:"table:click_moves,alias:move"`

	LinkID      string `bun:",pk"`
	WorkspaceID string `bun:"to_workspace"`
	// Requests counts how often the move was requested: each request may be about clicks that the
	// one before has not seen.
	Requests int64
	// Attempt is the number of the latest attempt.
	Attempt int64
}

// Move implements clickstore.Store: the totals move at once, the clicks by MoveClicks.
func (s *Store) Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error {
	if _, _, err := clickstore.MoveTotals(ctx, tx, linkID, workspaceID, s.Now()); err != nil {
		return fmt.Errorf("moving a link's clicks: %w", err)
	}
	return queueMoves(ctx, tx, map[string]string{linkID: workspaceID})
}

// queueMoves stores the workspaces of links whose clicks must be moved.
func queueMoves(ctx context.Context, tx bun.Tx, moved map[string]string) error {
	rows := make([]moveRow, 0, len(moved))
	for _, linkID := range slices.Sorted(maps.Keys(moved)) {
		rows = append(rows, moveRow{LinkID: linkID, WorkspaceID: moved[linkID], Requests: 1})
	}
	return db.InsertRows(ctx, tx, db.Insert{Into: "click_moves AS move",
		Rest: "ON CONFLICT (link_id) DO UPDATE SET to_workspace = excluded.to_workspace, requests = move.requests + 1"},
		rows)
}

// MoveClicks moves clicks of links that had no account to the workspaces that have claimed them. A
// click is copied first, so that it is missing from no answer, and a copy that exists is not made
// again. One process calls it at a time.
func (s *Store) MoveClicks(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	var moves []moveRow
	if err := s.DB.NewSelect().Model(&moves).Scan(ctx); err != nil || len(moves) == 0 {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for i := range moves {
		if err := s.moveClicks(ctx, &moves[i]); err != nil {
			return fmt.Errorf("moving the clicks of %s: %w", moves[i].LinkID, err)
		}
	}
	return nil
}

func (s *Store) moveClicks(ctx context.Context, m *moveRow) error {
	if m.Attempt != 0 {
		if err := s.fence(ctx, m.Attempt); err != nil {
			return err
		}
	}
	attempt, err := s.ids.Take(ctx, s.DB, 1)
	if err != nil {
		return err
	}
	before := m.Attempt
	m.Attempt = attempt
	n, err := db.Affected(s.DB.NewUpdate().Model(m).Column("attempt").WherePK().Where("attempt = ?", before).Exec(ctx))
	if err != nil || n == 0 { // another process moves them
		return err
	}
	for _, table := range []string{"clicks_open", "clicks"} { // in the order of sealing
		all := sql(columns + ", visitor")
		if table == "clicks" {
			all = sql(columns + ", visit, late")
		}
		from := render("workspace_id = ? AND link_id = ?", id.PublicWorkspace, m.LinkID)
		copies := render("SELECT id FROM ? WHERE workspace_id = ? AND link_id = ?", sql(table), m.WorkspaceID, m.LinkID)
		_, err = s.client.send(ctx,
			render("INSERT INTO ? (?) SELECT * REPLACE (? AS workspace_id) FROM (SELECT ? FROM ? WHERE ? "+
				"AND id NOT IN (?)) WHERE ?", sql(table), all, m.WorkspaceID, all, sql(table), sql(from), sql(copies),
				sql(unfenced(attempt))), nil, "query_id", s.queryID(attempt, table), "max_partitions_per_insert_block",
			"0")
		if err == nil {
			err = s.client.run(ctx, "ALTER TABLE ? DELETE WHERE ? AND id IN (?)", sql(table), sql(from), sql(copies))
		}
		if err != nil {
			return err
		}
	}
	_, err = s.DB.NewDelete().Model(m).WherePK().Where("requests = ?", m.Requests).Exec(ctx)
	return err
}

// remove deletes the rows of tables under a condition.
func (s *Store) remove(ctx context.Context, condition string, tables ...string) error {
	for _, table := range tables {
		if err := s.client.run(ctx, "ALTER TABLE ? DELETE WHERE ?", sql(table), sql(condition)); err != nil {
			return err
		}
	}
	return nil
}

// PurgeWorkspace implements clickstore.Store.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.remove(ctx, render("workspace_id = ?", workspaceID), "clicks_open", "clicks", "days"); err != nil {
		return fmt.Errorf("removing the clicks of a workspace: %w", err)
	}
	return clickstore.PurgeTotals(db.AsSystem(ctx), s.DB, workspaceID)
}
