package edit

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// FolderDeletion is how far a folder has been deleted.
type FolderDeletion struct {
	// Remaining is the number of links that are left in it.
	Remaining int64
}

// DeleteFolder takes up to MaxBatch links out of the folder, deleted ones too, and deletes it if
// none is left. Callers repeat the call until Remaining is 0. It returns NotFound, Conflict for a
// folder that an API key is restricted to, or Forbidden.
func (s *Store) DeleteFolder(ctx context.Context, m workspace.Membership, folderID string) (*FolderDeletion, error) {
	ctx, err := m.EnterWhole(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	f, err := s.Folders.Rows().Get(ctx, m, folderID)
	if err != nil {
		return nil, err
	}
	if err := apikey.CheckUnfenced(db.UpToDate(ctx), s.DB, s.DB, m, f.ID); err != nil { // before any link leaves it
		return nil, err
	}
	inFolder := func(conn bun.IDB) *bun.SelectQuery {
		return conn.NewSelect().Model((*link.Link)(nil)).Where("workspace_id = ?", m.ID()).Where("folder_id = ?", f.ID)
	}
	var ids []string
	err = inFolder(s.DB).Column("id").Order("id").Limit(link.MaxBatch).Scan(db.UpToDate(ctx), &ids)
	if err != nil {
		return nil, fmt.Errorf("listing the links of a folder: %w", err)
	}
	if len(ids) > 0 {
		_, err := s.edit(ctx, m, link.Edits{IDs: ids, Reason: updated, Mutate: func(_ int, l *link.Link) error {
			if optional.Value(l.FolderID) == f.ID { // else it was moved meanwhile
				l.FolderID = nil
				l.Touch(s.now())
			}
			return nil
		}})
		if err != nil {
			return nil, err
		}
	}
	d := &FolderDeletion{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		f, err := s.Folders.Rows().Lock(ctx, tx, m, folderID)
		if errs.Is(err, errs.NotFound) {
			return nil // another call has deleted it
		} else if err != nil {
			return err
		}
		if err := apikey.CheckUnfenced(ctx, s.DB, tx, m, f.ID); err != nil {
			return err
		}
		n, err := inFolder(tx).Count(ctx)
		if d.Remaining = int64(n); err != nil || n > 0 {
			return err
		}
		return s.Folders.DeleteEmpty(ctx, tx, f)
	})
	if err != nil {
		return nil, fmt.Errorf("deleting a folder: %w", err)
	}
	return d, nil
}
