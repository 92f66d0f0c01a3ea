package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
)

// Observe is what lets somebody look at stats of the workspace who is no member of it, and at nothing else: for links whose
// stats are public, and for URLs that a member has signed. Whoever calls it has found out that it is one of these. It returns
// NotFound.
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
