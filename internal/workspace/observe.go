package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
)

// Observe returns a membership that reads the workspace's stats, and nothing else, for a caller who
// is no member. The caller of Observe has checked that the stats are those of a link that makes
// them public. It returns NotFound.
func (s *Store) Observe(ctx context.Context, workspaceID string) (Membership, error) {
	w := &Workspace{}
	err := s.DB.NewSelect().Model(w).Where("id = ?", workspaceID).Where("deleted_at IS NULL").Scan(db.AsResolver(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return Membership{}, errNotFound()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("looking for a workspace: %w", err)
	}
	return Membership{workspace: w, role: Viewer, key: &account.Key{WorkspaceID: w.ID, Scopes: []string{string(ReadStats)}}}, nil
}
