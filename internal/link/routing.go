package link

import (
	"context"
	"reflect"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/workspace"
)

// fillTemplates replaces the UTM templates that changes name by their values.
func (s *Store) fillTemplates(ctx context.Context, m workspace.Membership, changes []*routing.Change) error {
	if s.Templates == nil {
		return nil
	}
	var all []**routing.UTM
	for _, c := range changes {
		if c != nil {
			all = append(all, &c.UTM.To)
		}
	}
	return s.Templates.Fill(ctx, m, all...)
}

// ChangeRouting applies a change to the routing of a link. The URLs of a link that the operator has
// disabled because of one cannot change.
func (l *Link) ChangeRouting(c *routing.Change) error {
	after, err := check.Apply(c, l.Routing)
	if err != nil {
		return errs.From(err).Under("routing")
	}
	if l.DisabledAt != nil && !reflect.DeepEqual(after.URLs(), l.Routing.URLs()) {
		return ErrDisabledURLs()
	}
	if !after.Equal(l.Routing) { // writeURLs compares pointers
		l.Routing = after
	}
	l.PasswordHash = c.PasswordHash(l.PasswordHash)
	return nil
}

// LinkRouting, LinkRule and LinkTarget are a routing and its parts with their link, which GraphQL resolvers
// use to load statistics.
type (
	LinkRouting struct {
		*routing.Routing
		Link *Link
	}
	LinkRule struct {
		*routing.Rule
		Link *Link
	}
	LinkTarget struct {
		*routing.Target
		Link *Link
	}
)

// LinkRouting returns the routing of the link, which for a plain link has all defaults.
func (l *Link) LinkRouting() *LinkRouting {
	return &LinkRouting{Routing: routing.OrDefaults(l.Routing), Link: l}
}
