package clicksql

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Move moves the clicks of a link without an owner to a workspace, and adds them to its rollups.
// The total is moved first, or created: pending clicks find their workspace there.
func (s *Store) Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error {
	link, space, err := clickstore.MoveTotals(ctx, tx, linkID, workspaceID, s.Now())
	if err == nil && space != nil {
		err = s.addToWorkspace(ctx, tx, link, space)
	}
	for _, table := range []string{"clicks", days} {
		column := "subject_id"
		if table == "clicks" {
			column = "link_id"
		}
		if err == nil {
			_, err = tx.NewUpdate().Table(table).Set("workspace_id = ?", workspaceID).Where("? = ?", bun.Ident(column),
				linkID).
				Exec(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("moving a link's clicks: %w", err)
	}
	return nil
}

// addToWorkspace adds the clicks of a link to the days of its workspace, as far as the workspace is
// sealed. Days that both have sealed are those of the link; the others are counted again.
func (s *Store) addToWorkspace(ctx context.Context, tx bun.Tx, link, space *clickstore.Total) error {
	sealed := space.SealedAt
	both := clickstore.Earlier(sealed, link.SealedAt.UTC()).Truncate(click.Day)
	var rows []day
	err := tx.NewSelect().Model(&rows).Where("subject_id = ?", link.SubjectID).Where("starts_at < ?", both).Scan(ctx)
	if err != nil {
		return err
	}
	moved := additions{}
	for i := range rows {
		one := moved.of(link.WorkspaceID, link.WorkspaceID, rows[i].StartsAt.UTC())
		if err := one.addDay(&rows[i]); err != nil {
			return err
		}
		one.counts.Add(click.LinkDimension, link.SubjectID, rows[i].count())
	}
	open := tx.NewSelect().Model((*click.Row)(nil)).Where("link_id = ?", link.SubjectID).
		Where("clicked_at >= ?", both).Where("clicked_at < ?", sealed)
	err = s.eachClick(ctx, open, func(c *click.Click) {
		c.WorkspaceID = link.WorkspaceID
		moved.addToWorkspace(c)
	})
	if err != nil {
		return err
	}
	return s.addDays(ctx, tx, moved, isNeverNew)
}

// purgeBatch is how many clicks are removed at once.
const purgeBatch = 5000

// PurgeWorkspace removes all clicks of a workspace, with their rollups, in batches.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	subjects := s.DB.NewSelect().Model((*clickstore.Total)(nil)).Column("subject_id").Where("workspace_id = ?",
		workspaceID)
	if err := s.removeAll(ctx, "clicks", "workspace_id = ?", workspaceID); err != nil {
		return err
	}
	if err := s.removeAll(ctx, days, "subject_id IN (?)", subjects); err != nil {
		return err
	}
	return clickstore.PurgeTotals(ctx, s.DB, workspaceID)
}

// removeAll deletes the rows of clicks or days that a condition selects, batch by batch.
func (s *Store) removeAll(ctx context.Context, table, condition string, args ...any) error {
	keys := "subject_id, starts_at"
	if table == "clicks" {
		keys = "workspace_id, clicked_at, id"
	}
	batch := s.DB.NewSelect().Table(table).ColumnExpr(keys).Where(condition, args...).Limit(purgeBatch)
	_, err := db.InBatches(purgeBatch, func() (int64, error) {
		return db.Affected(s.DB.NewDelete().Table(table).Where("("+keys+") IN (?)", batch).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("removing rows of %s: %w", table, err)
	}
	return nil
}
