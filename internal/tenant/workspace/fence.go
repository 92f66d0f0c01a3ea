package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// fencePermissions are all permissions that an API key with a fence can have. The others concern
// the whole workspace.
var fencePermissions = []Permission{ReadLinks, WriteLinks, CreateLinks, ReadStats, ReadDomains}

// CheckFence returns Forbidden for a permission that no API key with a fence can have.
func CheckFence(p Permission) error {
	if slices.Contains(fencePermissions, p) {
		return nil
	}
	return errs.New(errs.Forbidden, "This operation is not permitted to API keys that are restricted to folders.")
}

// Fence returns the folders that the membership is restricted to; nil means no restriction. To a
// membership with a fence, links outside of these folders do not exist, except that they keep their
// URLs, codes and external ids from others.
func (m Membership) Fence() []string { return fenceOf(m.key) }

// fenceOf returns the fence of a key, which may be nil.
func fenceOf(key *account.Key) []string {
	if key == nil || len(key.Folders) == 0 {
		return nil
	}
	return key.Folders
}

// IsInside reports whether the membership can see links in the folder; nil means those in none.
func (m Membership) IsInside(folderID *string) bool {
	fence := m.Fence()
	return fence == nil || folderID != nil && slices.Contains(fence, *folderID)
}

// Inside restricts a query to links that the membership can see, by the column with their folders.
// Without a fence it adds no condition.
func (m Membership) Inside(column string) func(*bun.SelectQuery) *bun.SelectQuery {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if m.Fence() == nil {
			return q
		}
		return q.Where("? IN (?)", bun.Ident(column), bun.In(m.Fence()))
	}
}

// InsideByID is Inside for a column with the ids of links.
func (m Membership) InsideByID(column string) func(*bun.SelectQuery) *bun.SelectQuery {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if m.Fence() == nil {
			return q
		}
		return q.Where("? IN (SELECT id FROM links WHERE folder_id IN (?))", bun.Ident(column), bun.In(m.Fence()))
	}
}

// NewFolder returns the folder of a new link: the given one or, with a fence of one folder, that.
// It returns Forbidden for a folder outside of the fence, and InvalidInput if a fence of several
// folders requires one.
func (m Membership) NewFolder(folderID *string) (*string, error) {
	fence := m.Fence()
	switch {
	case folderID == nil && len(fence) == 1:
		return &fence[0], nil
	case folderID == nil && fence != nil:
		return nil, errs.New(errs.InvalidInput, "The API key is restricted to several folders: choose one of them.").
			At("folderId")
	}
	return folderID, m.CheckFolder(folderID)
}

// CheckFolder returns Forbidden unless links in the folder are inside of the fence.
func (m Membership) CheckFolder(folderID *string) error {
	if m.IsInside(folderID) {
		return nil
	}
	return errs.New(errs.Forbidden, "The API key is restricted to other folders.").At("folderId")
}

// EnterWhole is Enter for data of the whole workspace: it returns Forbidden for a membership with a
// fence.
func (m Membership) EnterWhole(ctx context.Context, p Permission) (context.Context, error) {
	inside, err := m.Enter(ctx, p)
	if err == nil && m.Fence() != nil {
		return ctx, errs.New(errs.Forbidden,
			"This operation is about the whole workspace, which is not permitted to API keys "+
				"that are restricted to folders.")
	}
	return inside, err
}

// EnterLink is Enter for data of a link or, if its id is empty, EnterWhole. It returns NotFound for
// a link outside of the fence. Without a fence it reads nothing.
func (m Membership) EnterLink(ctx context.Context, p Permission, d *db.DB, linkID string) (context.Context, error) {
	if linkID == "" {
		return m.EnterWhole(ctx, p)
	}
	inside, err := m.Enter(ctx, p)
	if err != nil || m.Fence() == nil {
		return inside, err
	}
	found, err := m.linksInside(inside, d, linkID)
	if err == nil && len(found) == 0 {
		err = ErrNoLink().At("linkId")
	}
	return inside, err
}

// LinksInside returns a predicate for those of the links that the membership can see. Without a
// fence it reads nothing.
func (m Membership) LinksInside(
	ctx context.Context, d *db.DB, linkIDs ...string,
) (sees func(linkID string) bool, err error) {
	if m.Fence() == nil {
		return func(string) bool { return true }, nil
	}
	found, err := m.linksInside(ctx, d, linkIDs...)
	return func(linkID string) bool { return slices.Contains(found, linkID) }, err
}

func (m Membership) linksInside(ctx context.Context, d *db.DB, linkIDs ...string) (found []string, err error) {
	linkIDs = slices.DeleteFunc(slices.Clone(linkIDs), func(one string) bool { return !id.Valid(id.Link, one) })
	if len(linkIDs) == 0 {
		return nil, nil
	}
	err = d.NewSelect().Table("links").Column("id").Where("workspace_id = ?", m.ID()).
		Where("id IN (?)", bun.In(linkIDs)).
		Where("purged_at IS NULL").Apply(m.Inside("folder_id")).Scan(ctx, &found)
	if err != nil {
		return nil, fmt.Errorf("looking up the folders of links: %w", err)
	}
	return found, nil
}

// ErrNoLink returns the error for a link that does not exist, or that the caller may not see.
func ErrNoLink() *errs.Error {
	return errs.New(errs.NotFound, "There is no such link, or you cannot see it.").At("id")
}
