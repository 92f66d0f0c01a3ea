package apikey

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// checkFence returns the folders of a new key, sorted. It returns InvalidInput for too many, for
// several of a publishable key, and for a scope that keys with folders cannot have.
func checkFence(in NewKey, isPublishable bool) ([]string, error) {
	if len(in.FolderIDs) == 0 {
		return nil, nil
	}
	if len(in.FolderIDs) > maxFolders {
		return nil, errs.New(errs.InvalidInput, "A key has up to %d folders; these are %d.", maxFolders,
			len(in.FolderIDs)).
			At("folderIds")
	}
	folders := slices.Compact(slices.Sorted(slices.Values(in.FolderIDs)))
	if len(folders) > 1 && isPublishable {
		return nil, errs.New(errs.InvalidInput,
			"A publishable key has one folder at most, because it cannot choose the folder of a link.").
			At("folderIds")
	}
	_, err := errs.Map(in.Scopes, func(scope workspace.Permission) (_ any, err error) {
		if workspace.CheckFence(scope) != nil {
			err = errs.New(errs.InvalidInput,
				"A key with folders cannot have the scope %s, which is about the whole workspace.", scope)
		}
		return nil, err
	})
	return folders, errs.Under(err, "scopes")
}

// CheckUnfenced returns Conflict if the folder is one of those of an API key that is not revoked.
// The caller has locked the folder, so that no key gets it meanwhile.
func CheckUnfenced(ctx context.Context, d *db.DB, conn bun.IDB, m workspace.Membership, folderID string) error {
	q := conn.NewSelect().Model((*Key)(nil)).Where("workspace_id = ?", m.ID()).Where("revoked_at IS NULL")
	fenced, err := d.Contains(q, "folders", `"`+folderID+`"`).Exists(ctx)
	if err != nil {
		return fmt.Errorf("looking up the API keys of a folder: %w", err)
	}
	if fenced {
		return errs.New(errs.Conflict, "An API key is restricted to this folder. Revoke the key first.").At("id")
	}
	return nil
}
