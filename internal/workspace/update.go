package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/text"
)

// Change is what a caller wants of a workspace to be different; nil fields stay.
type Change struct {
	// Name is what people call it.
	Name *string
	// DefaultStrategy is how the codes of links are made that do not say it: not CUSTOM, which needs a code each.
	DefaultStrategy *string
	// DefaultRedirectStatus is the HTTP status of redirects whose link does not choose one.
	DefaultRedirectStatus *int
}

// Update changes the workspace's settings. It returns InvalidInput or Forbidden.
func (s *Store) Update(ctx context.Context, m Membership, c Change) (Membership, error) {
	if err := m.Need(Admin); err != nil {
		return Membership{}, err
	}
	if err := c.check(); err != nil {
		return Membership{}, err
	}
	changed := Membership{workspace: &Workspace{}, accountID: m.accountID, role: m.role}
	q := s.DB.NewUpdate().Model(changed.workspace).Set("updated_at = ?", db.Instant(s.Now()))
	if c.Name != nil {
		q = q.Set("name = ?", *c.Name)
	}
	if c.DefaultStrategy != nil {
		q = q.Set("default_strategy = ?", *c.DefaultStrategy)
	}
	if c.DefaultRedirectStatus != nil {
		q = q.Set("default_redirect_status = ?", *c.DefaultRedirectStatus)
	}
	if _, err := q.Where("id = ?", m.ID()).Returning("*").Exec(ctx); err != nil {
		return Membership{}, fmt.Errorf("changing a workspace: %w", err)
	}
	return changed, nil
}

func (c *Change) check() error {
	if c.Name != nil {
		name, err := text.Line("The name", *c.Name, 1, 100)
		if err != nil {
			return errs.From(err).At("name")
		}
		c.Name = &name
	}
	if s := c.DefaultStrategy; s != nil && !slices.Contains([]string{"DETERMINISTIC", "COUNTER", "RANDOM"}, *s) {
		return errs.New(errs.InvalidInput, "The default strategy must be DETERMINISTIC, COUNTER or RANDOM: a CUSTOM link needs a code of its own.").
			At("defaultStrategy")
	}
	if s := c.DefaultRedirectStatus; s != nil && !slices.Contains([]int{301, 302, 307, 308}, *s) {
		return errs.New(errs.InvalidInput, "defaultRedirectStatus must be 301, 302, 307 or 308.").At("defaultRedirectStatus")
	}
	return nil
}
