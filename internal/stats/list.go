package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// List returns a page of the clicks of a subject, newest first. A nil range means all stored
// clicks. It returns InvalidInput or Forbidden.
func (s *Store) List(
	ctx context.Context, m workspace.Membership, of Subject, r *Range, f Filter, request page.Request,
) (page.Page[*click.Click], error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return page.Page[*click.Click]{}, err
	}
	if f, err = f.checked(); err != nil {
		return page.Page[*click.Click]{}, err
	}
	stats := &Stats{Subject: of, Filter: f, store: s, member: m}
	var rows []*click.Row
	q := s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID())
	if !stats.isWorkspace() {
		q = stats.subject(q, "link_id")
	}
	if r != nil {
		if !r.From.Before(r.To) {
			return page.Page[*click.Click]{}, errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
		}
		q = q.Where("clicked_at >= ?", r.From.UTC()).Where("clicked_at < ?", r.To.UTC())
	}
	if request.After != "" {
		at, number, ok := SplitID(request.After)
		if !ok {
			return page.Page[*click.Click]{}, errs.New(errs.InvalidInput, "The cursor is none of these clicks.").At("after")
		}
		q = q.Where("(clicked_at, id) < (?, ?)", at, number)
	}
	err = f.filter(q).OrderExpr("clicked_at DESC, id DESC").Limit(int64(request.Size) + 1).Scan(ctx)
	if err != nil {
		return page.Page[*click.Click]{}, fmt.Errorf("listing clicks: %w", err)
	}
	return page.Cut(request, toClicks(rows)), nil
}

func toClicks(rows []*click.Row) []*click.Click {
	clicks := make([]*click.Click, len(rows))
	for i, r := range rows {
		clicks[i] = r.Click()
	}
	return clicks
}

// ByID returns the workspace's clicks with the public ids, as far back as List goes. Other ids are
// missing from the result. It returns Forbidden.
func (s *Store) ByID(ctx context.Context, m workspace.Membership, ids ...string) ([]*click.Click, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	var rows []*click.Row
	q, valid := withIDs(s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()), ids)
	if !valid {
		return nil, nil
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("selecting clicks: %w", err)
	}
	return toClicks(rows), nil
}

// WorkspacesOf returns which of the caller's workspaces have the clicks with the public ids, by id.
// Other ids are missing. The primary key begins with the workspace, so each id costs one key
// look-up per workspace, and no index of its own.
func (s *Store) WorkspacesOf(ctx context.Context, workspaceIDs []string, ids ...string) (map[string]string, error) {
	spaces := map[string]string{}
	var rows []*click.Row
	q, valid := withIDs(s.DB.NewSelect().Model(&rows).Column("workspace_id", "clicked_at", "id"), ids)
	if !valid || len(workspaceIDs) == 0 {
		return spaces, nil
	}
	if err := q.Where("workspace_id IN (?)", bun.In(workspaceIDs)).Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("selecting the workspaces of clicks: %w", err)
	}
	for _, r := range rows {
		spaces[r.Click().PublicID()] = r.WorkspaceID
	}
	return spaces, nil
}

// withIDs restricts a query to the clicks with the public ids, and reports whether any id is valid.
func withIDs(q *bun.SelectQuery, ids []string) (_ *bun.SelectQuery, valid bool) {
	q = q.WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		for _, one := range ids {
			if at, number, ok := SplitID(one); ok {
				q, valid = q.WhereOr("clicked_at = ? AND id = ?", at, number), true
			}
		}
		return q
	})
	return q, valid
}

// SplitID returns the instant and the number in a public id. It returns false for an instant that
// no database stores.
func SplitID(publicID string) (at time.Time, number int64, ok bool) {
	micros, number, ok := id.Split(id.Click, publicID)
	at = time.UnixMicro(micros).UTC()
	return at, number, ok && at.Year() >= 2000 && at.Year() <= 9999
}
