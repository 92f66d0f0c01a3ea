package workspace

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// ClearPrimaryHost resets the primary host of the workspace if it is this host.
func ClearPrimaryHost(ctx context.Context, tx bun.Tx, workspaceID, host string, now time.Time) error {
	_, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = NULL").Set("updated_at = ?", now).
		Where("id = ?", workspaceID).Where("primary_host = ?", host).Exec(ctx)
	return err
}
