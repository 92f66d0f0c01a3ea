package link

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// targetGrant has the maximum of a target. Package hitquota counts what is granted.
type targetGrant struct {
	bun.BaseModel `bun:"table:target_grants"`

	TargetID    string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	MaxClicks   *int64
}

// setRouting gives a new link its routing. Absent fields have the workspace's defaults. The tests run
// once the link has a code.
func (l *Link) setRouting(c *routing.Change) error {
	l.Routing = l.In.Workspace().RoutingDefaults
	if c == nil {
		return nil
	}
	return l.changeRouting(c)
}

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

// changeRouting applies a change to the routing of a link. The URLs of a link that the operator has
// disabled because of one cannot change.
func (l *Link) changeRouting(c *routing.Change) error {
	after, err := c.Apply(l.Routing)
	if err != nil {
		return errs.From(err).Under("routing")
	}
	if l.DisabledAt != nil && !reflect.DeepEqual(after.URLs(), l.Routing.URLs()) {
		return errDisabledURLs()
	}
	if !after.Equal(l.Routing) { // writeRouting compares pointers
		l.Routing = after
	}
	l.PasswordHash = c.PasswordHash(l.PasswordHash)
	return nil
}

// writeRouting writes the URLs and the maxima of targets of links whose routing has changed.
func (s *Store) writeRouting(ctx context.Context, tx bun.Tx, rewrites []rewrite) error {
	routed := slices.DeleteFunc(slices.Clone(rewrites), func(c rewrite) bool {
		return c.after.Routing == c.before.Routing
	})
	if err := s.writeURLs(ctx, tx, routed); err != nil {
		return err
	}
	var grants []targetGrant
	for _, c := range routed {
		grants = append(grants, c.grantRows()...)
	}
	// Sorted by ID, as when leases are returned, so that neither waits for the other in a circle.
	slices.SortFunc(grants, func(a, b targetGrant) int { return strings.Compare(a.TargetID, b.TargetID) })
	const raise = "ON CONFLICT (target_id) DO UPDATE SET max_clicks = excluded.max_clicks"
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: raise}, grants); err != nil {
		return fmt.Errorf("writing the maxima of targets: %w", err)
	}
	return nil
}

// grantRows returns the rows of targets that have a maximum, or had one before.
func (c *rewrite) grantRows() (rows []targetGrant) {
	after := c.after.Routing.MaxClicks()
	for target := range c.before.Routing.MaxClicks() {
		if _, ok := after[target]; !ok && !c.after.isPendingTarget(target) {
			after[target] = nil
		}
	}
	for target, maxClicks := range after {
		rows = append(rows, targetGrant{
			TargetID: target, LinkID: c.after.ID, WorkspaceID: c.after.WorkspaceID, MaxClicks: maxClicks,
		})
	}
	return rows
}

// isPendingTarget reports whether a pending change sets a maximum of the target, which must hold from its
// instant on.
func (l *Link) isPendingTarget(target string) bool {
	for _, c := range l.states() {
		if _, ok := c.after.Routing.MaxClicks()[target]; ok {
			return true
		}
	}
	return false
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
