// Package folder owns the folders and the UTM templates of workspaces. A link is in one folder or in none: package link writes in which. Packages
// link, creation, edit and graph call it.
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
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxPerWorkspace bounds the folders of a workspace.
const maxPerWorkspace = 1000

// Folder is a folder of a workspace.
type Folder struct {
	bun.BaseModel `bun:"table:folders,alias:folder"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// NameKey is validate.Fold of the name, which is unique in the workspace.
	NameKey   string
	CreatedAt time.Time

	// In is the membership through which the folder was loaded.
	In workspace.Membership `bun:"-"`
}

// Store stores folders.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// Order is the order of lists.
var Order = page.Order{Name: "NAME", Ascending: true}

// Rows returns the folders of workspaces.
func (s *Store) Rows() workspace.Collection[Folder] {
	return workspace.Collection[Folder]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Folder, Column: "id", Fence: "id",
		Missing: "There is no such folder.", In: func(f *Folder, m workspace.Membership) { f.In = m },
	}
}

// List returns one page of the workspace's folders, by name. It returns Forbidden.
func (s *Store) List(ctx context.Context, m workspace.Membership, r page.Request) (page.Page[*Folder], error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return page.Page[*Folder]{}, err
	}
	var rows []*Folder
	q := s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).Apply(m.Inside("folder.id"))
	if err := page.LimitBy(q, r, "name_key", "id").Scan(ctx); err != nil {
		return page.Page[*Folder]{}, fmt.Errorf("listing folders: %w", err)
	}
	p := page.Cut(r, rows)
	for _, f := range p.Items {
		f.In = m
		p.Cursors = append(p.Cursors, r.Order.Cursor(f.NameKey, f.ID))
	}
	return p, nil
}

// Lookup returns a lookup of folders by their ids, and a function that returns their workspaces after it. Texts that are no
// id of a folder are omitted.
func Lookup(d *db.DB, conn bun.IDB, ids ...string) (lookup db.Lookup, workspaces func() map[string]string) {
	var rows []*Folder
	ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(id.Folder, one) })
	if len(ids) > 0 {
		p := d.Params()
		lookup = db.Lookup{Params: p, Dest: &rows, Query: conn.NewSelect().Model((*Folder)(nil)).Column("id", "workspace_id").
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

// Create creates a folder. It returns InvalidInput, Conflict for a name in use, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, name string) (*Folder, error) {
	return s.name(ctx, m, audit.FolderCreated, name, func(ctx context.Context, tx bun.Tx) (*Folder, error) {
		err := workspace.LockForOneMore(ctx, s.DB, tx, m.ID(), (*Folder)(nil), maxPerWorkspace, "folders")
		return &Folder{ID: id.New(id.Folder), WorkspaceID: m.ID(), CreatedAt: db.Instant(s.Now()), In: m}, err
	})
}

// Rename gives a folder another name. It returns NotFound, InvalidInput, Conflict or Forbidden.
func (s *Store) Rename(ctx context.Context, m workspace.Membership, folderID, name string) (*Folder, error) {
	return s.name(ctx, m, audit.FolderUpdated, name, func(ctx context.Context, tx bun.Tx) (*Folder, error) {
		return s.Rows().Lock(ctx, tx, m, folderID)
	})
}

// name gives a folder that the transaction finds, or a new one, its name.
func (s *Store) name(
	ctx context.Context, m workspace.Membership, action audit.Action, name string,
	find func(ctx context.Context, tx bun.Tx) (*Folder, error),
) (f *Folder, err error) {
	if ctx, err = m.EnterWhole(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if f, err = find(ctx, tx); err != nil {
			return err
		}
		before := f.fields()
		if err := f.setName(name); err != nil {
			return err
		}
		changes := audit.Compare(before, f.fields())
		if len(changes) == 0 {
			return nil
		}
		_, err := tx.NewInsert().Model(f).On("CONFLICT (id) DO UPDATE").Set("name = EXCLUDED.name").
			Set("name_key = EXCLUDED.name_key").Exec(ctx)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(s.Now(), action, f.ID, audit.Details{"name": f.Name}).WithChanges(changes))
	})
	if db.IsUniqueViolation(err) {
		return nil, errs.New(errs.Conflict, "Another folder of the workspace has this name.").At("name")
	}
	if err != nil {
		return nil, fmt.Errorf("writing a folder: %w", err)
	}
	return f, nil
}

// Names returns the ids of the workspace's folders by validate.Fold of their names. It returns Forbidden.
func (s *Store) Names(ctx context.Context, m workspace.Membership) (map[string]string, error) {
	ctx, err := m.EnterWhole(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	var rows []*Folder
	if err := s.DB.NewSelect().Model(&rows).Column("id", "name_key").Where("workspace_id = ?", m.ID()).Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing folders: %w", err)
	}
	ids := make(map[string]string, len(rows))
	for _, f := range rows {
		ids[f.NameKey] = f.ID
	}
	return ids, nil
}

// New returns a folder to Insert into a workspace that has a number of folders. It returns InvalidInput or QuotaExceeded.
func (s *Store) New(m workspace.Membership, name string, have int) (*Folder, error) {
	if have >= maxPerWorkspace {
		return nil, errs.New(errs.QuotaExceeded, "A workspace has at most %d folders. Delete one first.", maxPerWorkspace)
	}
	f := &Folder{ID: id.New(id.Folder), WorkspaceID: m.ID(), CreatedAt: db.Instant(s.Now()), In: m}
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
		events = append(events, m.Event(s.Now(), audit.FolderCreated, f.ID, audit.Details{"name": f.Name}).
			WithChanges(audit.Compare((&Folder{}).fields(), f.fields())))
	}
	return audit.Write(ctx, tx, events...)
}

// setName gives the folder a name. It returns InvalidInput.
func (f *Folder) setName(name string) error {
	name, err := validate.Line("The name", name, 1, 100)
	if err != nil {
		return errs.From(err).At("name")
	}
	f.Name, f.NameKey = name, validate.Fold(name)
	return nil
}

// fields are the values that the audit log compares; null for a folder that does not exist.
func (f *Folder) fields() []audit.Field {
	return []audit.Field{{Name: "name", Value: optional.Of(f.Name)}}
}

// DeleteEmpty deletes a folder of the membership without links, in the transaction. The caller has locked it.
func (f *Folder) DeleteEmpty(ctx context.Context, tx bun.Tx, now time.Time) error {
	if _, err := tx.NewDelete().Model(f).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("deleting a folder: %w", err)
	}
	event := f.In.Event(now, audit.FolderDeleted, f.ID, audit.Details{"name": f.Name})
	return audit.Write(ctx, tx, event.WithChanges(audit.Compare(f.fields(), (&Folder{}).fields())))
}
