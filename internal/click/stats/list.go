package stats

import (
	"context"
	"slices"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// CheckList returns the filter of a List with its texts as clicks have them. It returns InvalidInput.
func CheckList(r *clickstore.Range, f clickstore.Filter) (clickstore.Filter, error) {
	var rangeErr error
	if r != nil && !r.From.Before(r.To) {
		rangeErr = errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
	}
	f, err := checked(f)
	return f, errs.All(rangeErr, err)
}

// List returns a page of the clicks of a subject, newest first. A nil range means all stored
// clicks. It returns InvalidInput or Forbidden.
func (s *Store) List(
	ctx context.Context, m workspace.Membership, of clickstore.Subject, r *clickstore.Range, f clickstore.Filter,
	request page.Request,
) (page.Page[*click.Click], error) {
	ctx, err := s.enter(ctx, m, of)
	if err != nil {
		return page.Page[*click.Click]{}, err
	}
	q := clickstore.Query{WorkspaceID: m.ID(), Subject: of, Range: optional.Value(r)}
	if q.Filter, err = CheckList(r, f); err != nil {
		return page.Page[*click.Click]{}, err
	}
	p := clickstore.Page{Size: request.Size + 1, NewestFirst: true}
	if request.After != "" {
		at, number, ok := click.SplitID(request.After)
		if !ok {
			return page.Page[*click.Click]{}, errs.New(errs.InvalidInput, "The cursor is none of these clicks.").
				At("after")
		}
		p.After = &click.Click{ClickedAt: at, ID: number}
	}
	clicks, err := s.Clicks.List(ctx, q, p)
	if err != nil {
		return page.Page[*click.Click]{}, err
	}
	return page.Cut(request, clicks), nil
}

// ByID returns the workspace's clicks with the public ids, as far back as List goes. Other ids are
// missing from the result. It returns Forbidden.
func (s *Store) ByID(ctx context.Context, m workspace.Membership, ids ...string) ([]*click.Click, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	clicks, err := s.Clicks.ByID(ctx, m.ID(), ids...)
	if err != nil {
		return nil, err
	}
	linkIDs := make([]string, 0, len(clicks))
	for _, c := range clicks {
		linkIDs = append(linkIDs, c.LinkID)
	}
	sees, err := m.LinksInside(ctx, s.DB, linkIDs...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(clicks, func(c *click.Click) bool { return !sees(c.LinkID) }), nil
}
