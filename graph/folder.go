package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateFolder(
	ctx context.Context, in gen.CreateFolderInput,
) (*gen.CreateFolderPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	f, err := r.Folders.Create(ctx, m, in.Name)
	return &gen.CreateFolderPayload{Folder: f}, err
}

func (r *mutationResolver) UpdateFolder(
	ctx context.Context, in gen.UpdateFolderInput,
) (*gen.UpdateFolderPayload, error) {
	rename := func(ctx context.Context, m workspace.Membership, folderID string) (*folder.Folder, error) {
		return r.Folders.Rename(ctx, m, folderID, in.Name)
	}
	f, err := forItem(ctx, &r.Config, in.ID, r.Folders.Rows().WorkspaceOf, rename)
	return &gen.UpdateFolderPayload{Folder: f}, err
}

func (r *mutationResolver) DeleteFolder(
	ctx context.Context, in gen.DeleteFolderInput,
) (*gen.DeleteFolderPayload, error) {
	d, err := forItem(ctx, &r.Config, in.ID, r.Folders.Rows().WorkspaceOf, func(
		ctx context.Context, m workspace.Membership, folderID string,
	) (*edit.FolderDeletion, error) {
		if err := (*resolver)(r).chargeSize(ctx, m); err != nil {
			return nil, err
		}
		return r.Edit.DeleteFolder(ctx, m, folderID)
	})
	if err != nil {
		return nil, err
	}
	p := &gen.DeleteFolderPayload{Remaining: d.Remaining}
	if d.Remaining == 0 {
		p.DeletedID = &in.ID
	}
	return p, nil
}

func (r *workspaceResolver) Folders(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.FolderConnection, error) {
	p, err := list(ctx, *m, folder.Order, id.Folder, first, after, r.Config.Folders.Rows().List, nil)
	loader.Expect(&loader.Of(ctx).In(*m).FolderLinks, p.Items, func(f *folder.Folder) string { return f.ID })
	return p, err
}

func (r *folderResolver) LinkCount(ctx context.Context, f *folder.Folder) (*int64, error) {
	n, err := loader.Of(ctx).In(f.In).FolderLinks.Get(ctx, f.ID)
	return &n, err
}

func (r *linkResolver) Folder(ctx context.Context, l *link.Link) (*folder.Folder, error) {
	return loader.Of(ctx).In(l.In).Folders.Get(ctx, optional.Value(l.FolderID))
}

func (r *linkVersionResolver) FolderID(ctx context.Context, v *link.Version) (*string, error) {
	f, err := loader.Of(ctx).In(v.Link.In).Folders.Get(ctx, optional.Value(v.FolderID))
	if f == nil {
		return nil, err
	}
	return &f.ID, err
}

// folderLinks counts the links of folders, at the cost of a count of the workspace's links.
func (r *resolver) folderLinks(ctx context.Context, m workspace.Membership, ids ...string) (map[string]int64, error) {
	if err := r.chargeSize(ctx, m); err != nil {
		return nil, err
	}
	return r.LinkList.CountInFolders(ctx, m, ids...)
}

// foldersByID returns folders of a workspace, and expects the numbers of their links to be
// requested.
func (c *Config) foldersByID(ctx context.Context, m workspace.Membership, ids ...string) ([]*folder.Folder, error) {
	loader.Of(ctx).In(m).FolderLinks.Expect(ids)
	return c.Folders.Rows().ByID(ctx, m, ids...)
}

func folderIDs(f *folder.Folder) (folderID, accountID string) { return f.ID, "" }
