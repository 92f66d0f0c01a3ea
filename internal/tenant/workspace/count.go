package workspace

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// LockForOneMore locks a workspace until the transaction ends, and returns QuotaExceeded if it has
// as many rows of the model as it may have. The plural names them.
func LockForOneMore(
	ctx context.Context, d *db.DB, tx bun.Tx, workspaceID string, model any, most int64, plural string,
) error {
	n, err := LockAndCount(ctx, d, tx, workspaceID, model)
	if err == nil && n >= most {
		return errs.New(errs.QuotaExceeded, "A workspace has at most %d %s. Delete one first.", most, plural)
	}
	return err
}

// LockAndCount locks a workspace until the transaction ends, and returns how many rows of the model
// it has. A caller that adds a row afterwards cannot exceed a maximum by concurrent calls.
func LockAndCount(
	ctx context.Context, d *db.DB, tx bun.Tx, workspaceID string, model any, where ...string,
) (int64, error) {
	lock := tx.NewSelect().Model((*Workspace)(nil)).Column("id").Where("id = ?", workspaceID)
	if err := d.ForChange(lock).Scan(ctx, new(string)); err != nil {
		return 0, err
	}
	q := tx.NewSelect().Model(model).Where("workspace_id = ?", workspaceID)
	for _, condition := range where {
		q = q.Where(condition)
	}
	return q.Count(ctx)
}
