package link

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// folders returns the workspaces of the folders with the ids. Ids that do not exist are omitted.
func (s *Store) folders(ctx context.Context, conn bun.IDB, ids ...string) (map[string]string, error) {
	lookup, workspaces := folder.Lookup(s.DB, conn, ids...)
	if err := lookup.Run(ctx); err != nil {
		return nil, fmt.Errorf("looking up folders: %w", err)
	}
	return workspaces(), nil
}

// checkFolder returns NotFound if the workspace of the link has no such folder.
func (s *Store) checkFolder(ctx context.Context, conn bun.IDB, l *Link, folderID string) error {
	found, err := s.folders(ctx, conn, folderID)
	if err == nil && found[folderID] != l.WorkspaceID {
		err = folder.ErrUnknown()
	}
	return err
}

// dropGoneFolders replaces folders that do not exist any more: after reverting to a version, the
// link is in none, and after a scheduled change, where it was.
func (s *Store) dropGoneFolders(ctx context.Context, tx bun.Tx, why Reason, rewrites []Rewrite) error {
	var moved []Rewrite
	var ids []string
	for _, c := range rewrites {
		if c.After.FolderID != nil && !optional.Equal(c.Before.FolderID, c.After.FolderID) {
			moved, ids = append(moved, c), append(ids, *c.After.FolderID)
		}
	}
	found, err := s.folders(ctx, tx, ids...)
	for _, c := range moved {
		if found[*c.After.FolderID] == c.After.WorkspaceID {
			continue
		}
		if c.After.FolderID = nil; why.Cause != CauseReverted {
			c.After.FolderID = c.Before.FolderID
		}
	}
	return err
}

// addFolder adds an edit that puts a link into another folder.
func (p *pass) addFolder(edit int, before, after *Link) {
	if after.FolderID != nil && !optional.Equal(before.FolderID, after.FolderID) {
		p.folders[*after.FolderID] = append(p.folders[*after.FolderID], edit)
	}
}

// missingFolders returns which of the edits fail because they put a link into a folder that the
// workspace does not have.
func (s *Store) missingFolders(
	ctx context.Context, conn bun.IDB, m workspace.Membership, edits map[string][]int,
) (failed []int, err error) {
	found, err := s.folders(ctx, conn, slices.Collect(maps.Keys(edits))...)
	for folderID, some := range edits {
		if found[folderID] != m.ID() {
			failed = append(failed, some...)
		}
	}
	return failed, err
}
