package workspace

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/uptrace/bun"
)

// SetPrimaryHost sets the host that short URLs of the workspace are shown with; nil means the
// instance's own. The caller has locked a verified domain of the workspace with this host. changed
// is false if nil was set and there was no primary host.
func SetPrimaryHost(
	ctx context.Context, tx bun.Tx, m Membership, host *string, now time.Time,
) (_ Membership, changed bool, err error) {
	q := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = ?", host).Set("updated_at = ?", now).
		Where("id = ?", m.ID())
	if host == nil {
		q = q.Where("primary_host IS NOT NULL")
	}
	n, err := db.Affected(q.Exec(ctx))
	w := *m.workspace
	w.PrimaryHost, w.UpdatedAt = host, now
	m.workspace = &w
	return m, n > 0, err
}

// ClearPrimaryHost resets the primary host of the workspace if it is this host.
func ClearPrimaryHost(ctx context.Context, tx bun.Tx, workspaceID, host string, now time.Time) error {
	_, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = NULL").Set("updated_at = ?", now).
		Where("id = ?", workspaceID).Where("primary_host = ?", host).Exec(ctx)
	return err
}
