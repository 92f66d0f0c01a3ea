package folder

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxTemplates bounds the templates of a workspace.
const maxTemplates = 100

// Template is a named set of UTM values.
type Template struct {
	bun.BaseModel `bun:"table:utm_templates,alias:template"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// NameKey is the name in lower case, which is unique in the workspace.
	NameKey   string
	UTM       *routing.UTM `bun:"utm"`
	CreatedAt time.Time
	UpdatedAt time.Time
}

// TemplateStore stores the UTM templates of workspaces. Their values are copied into links and
// workspace defaults when those are written; later edits of a template change no link.
type TemplateStore struct {
	DB  *db.DB
	Now func() time.Time
}

// TemplateOrder is the order of lists.
var TemplateOrder = page.Order{Name: "NAME", Ascending: true}

// TemplateChange is the input for a template. Fields without Set stay.
type TemplateChange struct {
	Name optional.Edit[string]
	UTM  optional.Edit[*routing.UTM]
}

// Rows returns the templates of workspaces.
func (s *TemplateStore) Rows() workspace.Collection[Template] {
	return workspace.Collection[Template]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Template, Column: "id",
		Missing: "There is no such UTM template.",
	}
}

// List returns one page of the workspace's templates, by name. It returns Forbidden.
func (s *TemplateStore) List(ctx context.Context, m workspace.Membership, r page.Request) (page.Page[*Template], error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return page.Page[*Template]{}, err
	}
	var rows []*Template
	q := s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID())
	if err := page.LimitBy(q, r, "name_key", "id").Scan(ctx); err != nil {
		return page.Page[*Template]{}, fmt.Errorf("listing UTM templates: %w", err)
	}
	p := page.Cut(r, rows)
	for _, t := range p.Items {
		p.Cursors = append(p.Cursors, r.Order.Cursor(t.NameKey, t.ID))
	}
	return p, nil
}

// Values returns the values of templates of the workspace, by id. Unknown ids are omitted.
func (s *TemplateStore) Values(ctx context.Context, m workspace.Membership, ids ...string) (map[string]*routing.UTM, error) {
	rows, err := s.Rows().ByID(ctx, m, ids...)
	values := make(map[string]*routing.UTM, len(rows))
	for _, t := range rows {
		values[t.ID] = t.UTM
	}
	return values, err
}

// Create creates a template. It returns InvalidInput, Conflict for a name in use, or Forbidden.
func (s *TemplateStore) Create(ctx context.Context, m workspace.Membership, name string, utm *routing.UTM) (*Template, error) {
	c := TemplateChange{Name: optional.Set(name), UTM: optional.Set(utm)}
	return s.write(ctx, m, audit.UTMTemplateCreated, c, func(ctx context.Context, tx bun.Tx) (*Template, error) {
		err := workspace.LockForOneMore(ctx, s.DB, tx, m.ID(), (*Template)(nil), maxTemplates, "UTM templates")
		return &Template{ID: id.New(id.Template), WorkspaceID: m.ID(), CreatedAt: db.Instant(s.Now())}, err
	})
}

// Update changes a template. It returns NotFound, InvalidInput, Conflict or Forbidden.
func (s *TemplateStore) Update(ctx context.Context, m workspace.Membership, templateID string, c TemplateChange) (*Template, error) {
	return s.write(ctx, m, audit.UTMTemplateUpdated, c, func(ctx context.Context, tx bun.Tx) (*Template, error) {
		return s.Rows().Lock(ctx, tx, m, templateID)
	})
}

// write applies a change to a template that the transaction finds, or to a new one.
func (s *TemplateStore) write(
	ctx context.Context, m workspace.Membership, action audit.Action, c TemplateChange,
	find func(ctx context.Context, tx bun.Tx) (*Template, error),
) (t *Template, err error) {
	if ctx, err = m.EnterWhole(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if t, err = find(ctx, tx); err != nil {
			return err
		}
		before := t.fields()
		if err := t.apply(c); err != nil {
			return err
		}
		t.UpdatedAt = db.Instant(s.Now())
		_, err := tx.NewInsert().Model(t).On("CONFLICT (id) DO UPDATE").Set("name = EXCLUDED.name").
			Set("name_key = EXCLUDED.name_key").Set("utm = EXCLUDED.utm").Set("updated_at = EXCLUDED.updated_at").Exec(ctx)
		if err != nil {
			return err
		}
		event := m.Event(s.Now(), action, t.ID, audit.Details{"name": t.Name})
		return audit.Write(ctx, tx, event.WithChanges(audit.Compare(before, t.fields())))
	})
	if db.IsUniqueViolation(err) {
		return nil, errs.New(errs.Conflict, "Another UTM template of the workspace has this name.").At("name")
	}
	if err != nil {
		return nil, fmt.Errorf("writing a UTM template: %w", err)
	}
	return t, nil
}

// Delete deletes a template. It returns NotFound or Forbidden.
func (s *TemplateStore) Delete(ctx context.Context, m workspace.Membership, templateID string) (t *Template, err error) {
	if ctx, err = m.EnterWhole(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if t, err = s.Rows().Lock(ctx, tx, m, templateID); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(t).WherePK().Exec(ctx); err != nil {
			return err
		}
		event := m.Event(s.Now(), audit.UTMTemplateDeleted, t.ID, audit.Details{"name": t.Name})
		return audit.Write(ctx, tx, event.WithChanges(audit.Compare(t.fields(), (&Template{}).fields())))
	})
	if err != nil {
		return nil, fmt.Errorf("deleting a UTM template: %w", err)
	}
	return t, nil
}

// fields are the values that the audit log compares; null for a template that does not exist.
func (t *Template) fields() []audit.Field {
	return []audit.Field{{Name: "name", Value: optional.Of(t.Name)}, {Name: "utm", Value: t.UTM}}
}

// apply changes the template. It returns InvalidInput.
func (t *Template) apply(c TemplateChange) error {
	if c.Name.Set {
		name, err := validate.Line("The name", c.Name.To, 1, 100)
		if err != nil {
			return errs.From(err).At("name")
		}
		t.Name, t.NameKey = name, validate.Fold(name)
	}
	if !c.UTM.Set {
		return nil
	}
	utm := *c.UTM.To
	if utm.TemplateID != nil {
		return errs.New(errs.InvalidInput, "A template has values of its own: leave templateId out.").At("utm", "templateId")
	}
	if err := check.UTM(&utm); err != nil {
		return errs.From(err).Under("utm")
	}
	t.UTM = &utm
	return nil
}

// Fill replaces templateId in UTM values by the values of the template; values that are given win. It
// leaves unknown ids, which Check of the values refuses.
func (s *TemplateStore) Fill(ctx context.Context, m workspace.Membership, all ...**routing.UTM) error {
	var ids []string
	for _, one := range all {
		if *one != nil && (*one).TemplateID != nil {
			ids = append(ids, *(*one).TemplateID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	values, err := s.Values(ctx, m, ids...)
	if err != nil {
		return err
	}
	for _, one := range all {
		if *one == nil || (*one).TemplateID == nil {
			continue
		}
		if from := values[*(*one).TemplateID]; from != nil {
			filled := **one // the input stays as it is
			filled.TemplateID = nil
			filled.Fill(from)
			*one = &filled
		}
	}
	return nil
}
