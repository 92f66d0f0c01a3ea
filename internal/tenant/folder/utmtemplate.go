package folder

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxTemplates bounds the templates of a workspace.
const maxTemplates = 100

// Template is a named set of UTM values.
type Template struct {
	bun.BaseModel `bun:"table:utm_templates,alias:template"`

	Named

	UTM       *routing.UTM `bun:"utm"`
	UpdatedAt time.Time
}

func (*Template) IsEntity() {} // an entity of Apollo Federation

// TemplateStore stores the UTM templates of workspaces. Their values are copied into links and
// workspace defaults when those are written; later edits of a template change no link.
type TemplateStore struct {
	DB  *db.DB
	Now func() time.Time
}

// TemplateChange is the input for a template. Fields without Set stay.
type TemplateChange struct {
	Name optional.Edit[string]
	UTM  optional.Edit[*routing.UTM]
}

// Rows returns the templates of workspaces.
func (s *TemplateStore) Rows() workspace.Collection[Template] {
	return workspace.Collection[Template]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Template, Column: "id", By: "name_key",
		Position: byName[Template],
		Missing:  "There is no such UTM template.",
	}
}

func (s *TemplateStore) collection() collection[Template, *Template] {
	return collection[Template, *Template]{
		db: s.DB, now: s.Now, noun: "UTM template", writesAll: true,
		set: "name = EXCLUDED.name, name_key = EXCLUDED.name_key, utm = EXCLUDED.utm, updated_at = EXCLUDED.updated_at",
	}
}

// Values returns the values of templates of the workspace, by id. Unknown ids are omitted.
func (s *TemplateStore) Values(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]*routing.UTM, error) {
	rows, err := s.Rows().ByID(ctx, m, ids...)
	values := make(map[string]*routing.UTM, len(rows))
	for _, t := range rows {
		values[t.ID] = t.UTM
	}
	return values, err
}

// Create creates a template. It returns InvalidInput, Conflict for a name in use, or Forbidden.
func (s *TemplateStore) Create(
	ctx context.Context, m workspace.Membership, name string, utm *routing.UTM,
) (*Template, error) {
	c := TemplateChange{Name: optional.Set(name), UTM: optional.Set(utm)}
	return s.collection().write(ctx, m, audit.UTMTemplateCreated,
		func(ctx context.Context, tx bun.Tx) (*Template, error) {
			err := workspace.LockForOneMore(ctx, s.DB, tx, m.ID(), (*Template)(nil), maxTemplates, "UTM templates")
			return &Template{Named: newNamed(id.Template, m, s.Now())}, err
		}, func(t *Template) error { return t.apply(c, s.Now()) })
}

// Update changes a template. It returns NotFound, InvalidInput, Conflict or Forbidden.
func (s *TemplateStore) Update(
	ctx context.Context, m workspace.Membership, templateID string, c TemplateChange,
) (*Template, error) {
	return s.collection().write(ctx, m, audit.UTMTemplateUpdated,
		func(ctx context.Context, tx bun.Tx) (*Template, error) {
			return s.Rows().Lock(ctx, tx, m, templateID)
		}, func(t *Template) error { return t.apply(c, s.Now()) })
}

// Delete deletes a template. It returns NotFound or Forbidden.
func (s *TemplateStore) Delete(
	ctx context.Context, m workspace.Membership, templateID string,
) (t *Template, err error) {
	if ctx, err = m.EnterWhole(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if t, err = s.Rows().Lock(ctx, tx, m, templateID); err != nil {
			return err
		}
		return s.collection().delete(ctx, tx, m, audit.UTMTemplateDeleted, t)
	})
	return t, err
}

// fields are the values that the audit log compares; null for a template that does not exist.
func (t *Template) fields() []audit.Field {
	return []audit.Field{{Name: "name", Value: optional.Of(t.Name)}, {Name: "utm", Value: t.UTM}}
}

// apply changes the template. It returns InvalidInput.
func (t *Template) apply(c TemplateChange, now time.Time) error {
	t.UpdatedAt = db.Instant(now)
	var nameErr, idErr, utmErr error
	if c.Name.Set {
		nameErr = t.setName(c.Name.To)
	}
	if c.UTM.Set {
		utm := *c.UTM.To
		if utm.TemplateID != nil {
			idErr = errs.New(errs.InvalidInput, "A template has values of its own: leave templateId out.").
				At("templateId")
		}
		utm.TemplateID, t.UTM = nil, &utm
		utmErr = errs.Under(errs.All(idErr, check.UTM(&utm)), "utm")
	}
	return errs.All(nameErr, utmErr)
}

// Fill replaces templateId in UTM values by the values of the template; values that are given win.
// It leaves unknown ids, which Check of the values refuses.
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
