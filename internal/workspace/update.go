package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/validate"
)

// Change describes changes of a workspace's settings; nil fields stay.
type Change struct {
	Name *string
	// Slug replaces the slug. The old one keeps working and stays reserved.
	Slug *string
	// DefaultStrategy must not be CUSTOM, which needs a code.
	DefaultStrategy       *string
	DefaultRedirectStatus *int
}

// Update changes the workspace's settings. It returns InvalidInput, SlugTaken or Forbidden.
func (s *Store) Update(ctx context.Context, m Membership, c Change) (Membership, error) {
	ctx, err := m.Enter(ctx, WriteSettings)
	if err != nil {
		return Membership{}, err
	}
	if err := c.check(); err != nil {
		return Membership{}, err
	}
	changed := m
	changed.workspace = &Workspace{}
	q, details := c.apply(m.workspace, s.DB.NewUpdate().Model(changed.workspace).Set("updated_at = ?", s.now()))
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		before := Workspace{}
		lock := tx.NewSelect().Model(&before).Where("id = ?", m.ID())
		if err := s.DB.ForChange(lock).Scan(ctx); err != nil {
			return err
		}
		// The workspace before its slug, as in Create, which avoids deadlocks.
		if _, err := q.Conn(tx).Where("id = ?", m.ID()).Returning("?Columns").Exec(ctx); err != nil {
			return err
		}
		if c.Slug != nil {
			if err := s.checkSlugChanges(ctx, tx, changed.workspace, *c.Slug); err != nil {
				return err
			}
			if err := s.reserveSlug(ctx, tx, m.ID(), *c.Slug); err != nil {
				return err
			}
		}
		if len(details) == 0 {
			return nil
		}
		event := m.Event(s.Now(), audit.WorkspaceUpdated, m.ID(), details)
		return audit.Write(ctx, tx, event.WithChanges(changed.workspace.changes(&before)))
	})
	if db.IsUniqueViolation(err) { // only the slug is unique
		return Membership{}, errSlugTaken()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("changing a workspace: %w", err)
	}
	return changed, nil
}

// apply adds the set fields to the statement, and returns changed ones as details.
func (c Change) apply(before *Workspace, q *bun.UpdateQuery) (*bun.UpdateQuery, audit.Details) {
	details := audit.Details{}
	set := func(column, field string, from, to any) {
		q = q.Set("? = ?", bun.Ident(column), to)
		if from != to {
			details[field] = to
		}
	}
	if c.Name != nil {
		set("name", "name", before.Name, *c.Name)
	}
	if c.Slug != nil {
		set("slug", "slug", before.Slug, *c.Slug)
	}
	if c.DefaultStrategy != nil {
		set("default_strategy", "defaultStrategy", before.DefaultStrategy, *c.DefaultStrategy)
	}
	if c.DefaultRedirectStatus != nil {
		set("default_redirect_status", "defaultRedirectStatus", before.DefaultRedirectStatus, *c.DefaultRedirectStatus)
	}
	return q, details
}

// changes returns the changed settings for the audit log.
func (w *Workspace) changes(before *Workspace) []*audit.FieldChange {
	return audit.Compare(before.settings(), w.settings())
}

// settings are the fields that the audit log compares, by their names in the API.
func (w *Workspace) settings() []audit.Field {
	return []audit.Field{
		{Name: "name", Value: w.Name}, {Name: "slug", Value: w.Slug},
		{Name: "defaultStrategy", Value: w.DefaultStrategy},
		{Name: "defaultRedirectStatus", Value: w.DefaultRedirectStatus},
		{Name: "routingDefaults", Value: w.RoutingDefaults}, {Name: "notFoundUrl", Value: w.NotFoundURL},
		{Name: "endedUrl", Value: w.EndedURL}, {Name: "inspectable", Value: w.Inspectable},
		{Name: "qrStyle", Value: w.QRStyle}, {Name: "hitQuota", Value: w.HitQuota},
		{Name: "linkQuota", Value: w.LinkQuota},
	}
}

func (c *Change) check() error {
	if c.Name != nil {
		name, err := validate.Line("The name", *c.Name, 1, 100)
		if err != nil {
			return errs.From(err).At("name")
		}
		c.Name = &name
	}
	if c.Slug != nil {
		if err := checkSlug(*c.Slug); err != nil {
			return err
		}
	}
	if s := c.DefaultStrategy; s != nil && !slices.Contains([]string{"DETERMINISTIC", "COUNTER", "RANDOM"}, *s) {
		return errs.New(errs.InvalidInput, "The default strategy must be DETERMINISTIC, COUNTER or RANDOM: "+
			"a CUSTOM link needs a code of its own.").At("defaultStrategy")
	}
	if s := c.DefaultRedirectStatus; s != nil && !slices.Contains([]int{301, 302, 307, 308}, *s) {
		return errs.New(errs.InvalidInput, "defaultRedirectStatus must be 301, 302, 307 or 308.").
			At("defaultRedirectStatus")
	}
	return nil
}
