package workspace

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// ResponsibleFor is the expression of the account that is responsible for what a workspace uses of
// the instance: its first owner, and the workspace itself without one. The column has the id of the
// workspace. An account may have many workspaces, and each of them many members and API keys, so
// whatever has a limited number of turns counts by this account. Statements that read it need the
// scope of the system.
func ResponsibleFor(column string) string {
	return "COALESCE((SELECT owner.account_id FROM members AS owner WHERE owner.workspace_id = " + column +
		" AND owner.role = 'OWNER' ORDER BY owner.created_at, owner.account_id LIMIT 1), " + column + ")"
}

// ResponsibleFor returns the account that is responsible for a workspace, as the expression does.
func (s *Store) ResponsibleFor(ctx context.Context, workspaceID string) (accountID string, err error) {
	q := s.DB.NewSelect().Model((*Workspace)(nil)).ColumnExpr(ResponsibleFor("workspace.id")).
		Where("id = ?", workspaceID)
	if err := q.Scan(db.AsSystem(ctx), &accountID); err != nil {
		return "", fmt.Errorf("reading who is responsible for a workspace: %w", err)
	}
	return accountID, nil
}
