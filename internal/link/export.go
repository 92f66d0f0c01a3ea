package link

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
)

// exportBatch is how many links a part of an export has.
const exportBatch = 1000

// Exported is a link that a person has made.
type Exported struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Code        string    `json:"code"`
	OriginalURL string    `json:"originalUrl"`
	Title       *string   `json:"title"`
	Note        *string   `json:"note"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Export is a part of the links that the actor has made in the workspaces which they are a member of: those after an id,
// and the id after which the next part begins, empty when there is none.
func (s *Store) Export(ctx context.Context, a account.Actor, after string) (links []Exported, next string, err error) {
	links = []Exported{}
	err = s.DB.NewSelect().Model((*Link)(nil)).Column("id", "workspace_id", "code", "original_url", "title", "note", "created_at").
		Where("workspace_id IN (SELECT workspace_id FROM members WHERE account_id = ?)", a.AccountID).
		Where("created_by = ?", a.AccountID).Where("purged_at IS NULL").Where("id > ?", after).
		// By person, not by workspace: the statement is bound to the account.
		Order("id").Limit(exportBatch).Scan(db.AsSystem(ctx), &links)
	if err != nil {
		return nil, "", fmt.Errorf("exporting links: %w", err)
	}
	if len(links) == exportBatch {
		next = links[len(links)-1].ID
	}
	return links, next, nil
}
