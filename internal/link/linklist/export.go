package linklist

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// exportBatch is the number of links in a part of an export.
const exportBatch = 1000

// Exported is a link in the export of its creator's data.
type Exported struct {
	ID          string `json:"id"`
	WorkspaceID string `json:"workspaceId"`
	// Code is the link.Link's ShownCode.
	Code        string    `json:"code"`
	OriginalURL string    `json:"originalUrl"`
	Title       *string   `json:"title"`
	Note        *string   `json:"note"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Export returns a part of the links that the actor created in the workspaces that they are a
// member of, and that their session opens: those after an ID. It also returns the ID after which
// the next part begins; empty after the last part.
func (s *Store) Export(ctx context.Context, a account.Actor, after string) (links []Exported, next string, err error) {
	var found []*link.Link
	err = s.DB.NewSelect().Model(&found).
		Column("id", "workspace_id", "code", "own_address", "original_url", "title", "note", "created_at").
		Where("workspace_id IN (SELECT workspace_id FROM members WHERE account_id = ?)", a.AccountID).
		Where("created_by = ?", a.AccountID).Where("purged_at IS NULL").Where("id > ?", after).
		Apply(workspace.Opened(a)).
		// In the system's scope, because it spans workspaces: the conditions bind it to the
		// account.
		Order("id").Limit(exportBatch).Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, "", fmt.Errorf("exporting links: %w", err)
	}
	links = make([]Exported, 0, len(found))
	for _, l := range found {
		links = append(links, Exported{
			ID: l.ID, WorkspaceID: l.WorkspaceID, Code: l.ShownCode(), OriginalURL: l.OriginalURL, Title: l.Title,
			Note:      l.Note,
			CreatedAt: l.CreatedAt,
		})
	}
	if len(links) == exportBatch {
		next = links[len(links)-1].ID
	}
	return links, next, nil
}
