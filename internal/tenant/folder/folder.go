// Package folder owns the folders and the UTM templates of workspaces. A link is in one folder or
// in none; package link stores which. Packages link, creation, edit and graph call it.
package folder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxPerWorkspace bounds the folders of a workspace.
const maxPerWorkspace = 1000

// Folder is a folder of a workspace.
type Folder struct {
	bun.BaseModel `bun:"table:folders,alias:folder"`

	Named

	// In is the membership through which the folder was loaded.
	In workspace.Membership `bun:"-"`
}

func (*Folder) IsEntity() {} // an entity of Apollo Federation

// Store stores folders.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// Rows returns the folders of workspaces.
func (s *Store) Rows() workspace.Collection[Folder] {
	return workspace.Collection[Folder]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Folder, Column: "id", Fence: "id", By: "name_key",
		Position: byName[Folder],
		Missing:  "There is no such folder.", In: func(f *Folder, m workspace.Membership) { f.In = m },
	}
}

func (s *Store) collection() collection[Folder, *Folder] {
	return collection[Folder, *Folder]{db: s.DB, now: s.Now, noun: "folder",
		set: "name = EXCLUDED.name, name_key = EXCLUDED.name_key"}
}

// Lookup returns a lookup of folders by their ids, and a function that returns their workspaces
// after it. Texts that are no id of a folder are omitted.
func Lookup(d *db.DB, conn bun.IDB, ids ...string) (lookup db.Lookup, workspaces func() map[string]string) {
	var rows []*Folder
	ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(id.Folder, one) })
	if len(ids) > 0 {
		p := d.Params()
		lookup = db.Lookup{Params: p, Dest: &rows,
			Query: conn.NewSelect().Model((*Folder)(nil)).Column("id", "workspace_id").
				Where("id ?", db.Among(p, ids))}
	}
	return lookup, func() map[string]string {
		spaces := make(map[string]string, len(rows))
		for _, f := range rows {
			spaces[f.ID] = f.WorkspaceID
		}
		return spaces
	}
}

// ErrUnknown refuses a folder for a link that its workspace does not have.
func ErrUnknown() *errs.Error {
	return errs.New(errs.NotFound, "The workspace has no folder with this id.").At("folderId")
}

// Create creates a folder. It returns InvalidInput, Conflict for a name in use, QuotaExceeded or
// Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, name string) (*Folder, error) {
	return s.collection().write(ctx, m, audit.FolderCreated, func(ctx context.Context, tx bun.Tx) (*Folder, error) {
		err := workspace.LockForOneMore(ctx, s.DB, tx, m.ID(), (*Folder)(nil), maxPerWorkspace, "folders")
		return &Folder{Named: newNamed(id.Folder, m, s.Now()), In: m}, err
	}, func(f *Folder) error { return f.setName(name) })
}

// Rename gives a folder another name. It returns NotFound, InvalidInput, Conflict or Forbidden.
func (s *Store) Rename(ctx context.Context, m workspace.Membership, folderID, name string) (*Folder, error) {
	return s.collection().write(ctx, m, audit.FolderUpdated, func(ctx context.Context, tx bun.Tx) (*Folder, error) {
		return s.Rows().Lock(ctx, tx, m, folderID)
	}, func(f *Folder) error { return f.setName(name) })
}

// Names returns the ids of the workspace's folders by validate.Fold of their names. It returns
// Forbidden.
func (s *Store) Names(ctx context.Context, m workspace.Membership) (map[string]string, error) {
	ctx, err := m.EnterWhole(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	var rows []*Folder
	if err := s.DB.NewSelect().Model(&rows).Column("id", "name_key").Where("workspace_id = ?", m.ID()).
		Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing folders: %w", err)
	}
	ids := make(map[string]string, len(rows))
	for _, f := range rows {
		ids[f.NameKey] = f.ID
	}
	return ids, nil
}

// New returns a folder to Insert into a workspace that has a number of folders. It returns
// InvalidInput or QuotaExceeded.
func (s *Store) New(m workspace.Membership, name string, have int) (*Folder, error) {
	if have >= maxPerWorkspace {
		return nil, errs.New(errs.QuotaExceeded, "A workspace has at most %d folders. Delete one first.",
			maxPerWorkspace)
	}
	f := &Folder{Named: newNamed(id.Folder, m, s.Now()), In: m}
	return f, f.setName(name)
}

// Insert inserts folders in a transaction.
func (s *Store) Insert(ctx context.Context, tx bun.Tx, m workspace.Membership, folders ...*Folder) error {
	if len(folders) == 0 {
		return nil
	}
	if _, err := tx.NewInsert().Model(&folders).Exec(ctx); err != nil {
		return fmt.Errorf("creating folders: %w", err)
	}
	var events []*audit.Event
	for _, f := range folders {
		events = append(events, s.collection().event(m, audit.FolderCreated, f, (&Folder{}).fields(), f.fields()))
	}
	return audit.Write(ctx, tx, events...)
}

// fields are the values that the audit log compares; null for a folder that does not exist.
func (f *Folder) fields() []audit.Field {
	return []audit.Field{{Name: "name", Value: optional.Of(f.Name)}}
}

// DeleteEmpty deletes a folder without links, in the transaction. The caller has locked it.
func (s *Store) DeleteEmpty(ctx context.Context, tx bun.Tx, f *Folder) error {
	return s.collection().delete(ctx, tx, f.In, audit.FolderDeleted, f)
}
