package clicksql

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// List implements clickstore.Store.
func (s *Store) List(ctx context.Context, of clickstore.Query, p clickstore.Page) ([]*click.Click, error) {
	q := (&query{of, s}).clicks(ctx)
	if of.Range != (clickstore.Range{}) {
		q = q.Where("clicked_at >= ? AND clicked_at < ?", of.From.UTC(), of.To.UTC())
	}
	order, comparison := "clicked_at, id", "(clicked_at, id) > (?, ?)"
	if p.NewestFirst {
		order, comparison = "clicked_at DESC, id DESC", "(clicked_at, id) < (?, ?)"
	}
	if p.After != nil {
		q = q.Where(comparison, p.After.ClickedAt, p.After.ID)
	}
	return scanClicks(ctx, q.OrderExpr(order).Limit(int64(p.Size)))
}

// ByID implements clickstore.Store.
func (s *Store) ByID(ctx context.Context, workspaceID string, ids ...string) ([]*click.Click, error) {
	q, valid := withIDs(s.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", workspaceID), ids)
	if !valid {
		return nil, nil
	}
	return scanClicks(ctx, q)
}

// WorkspacesOf implements clickstore.Store. The primary key begins with the workspace, so each id
// costs one key look-up per workspace, and no index of its own.
func (s *Store) WorkspacesOf(ctx context.Context, workspaceIDs []string, ids ...string) (map[string]string, error) {
	spaces := map[string]string{}
	q, valid := withIDs(s.DB.NewSelect().Model((*click.Row)(nil)).Column("workspace_id", "clicked_at", "id"), ids)
	if !valid || len(workspaceIDs) == 0 {
		return spaces, nil
	}
	found, err := scanClicks(db.AsSystem(ctx), q.Where("workspace_id IN (?)", bun.In(workspaceIDs)))
	for _, c := range found {
		spaces[c.PublicID()] = c.WorkspaceID
	}
	return spaces, err
}

// withIDs restricts a query to the clicks with the public ids, and reports whether any id is valid.
func withIDs(q *bun.SelectQuery, ids []string) (_ *bun.SelectQuery, valid bool) {
	q = q.WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		for _, one := range ids {
			if at, number, ok := click.SplitID(one); ok {
				q, valid = q.WhereOr("clicked_at = ? AND id = ?", at, number), true
			}
		}
		return q
	})
	return q, valid
}

// Span implements clickstore.Store. The condition on the time selects by the primary key, where the
// time follows the workspace.
func (s *Store) Span(
	ctx context.Context, spans []clickstore.Span, workspaceIDs []string, linkID string,
) ([]*click.Click, error) {
	first, last := spans[0].FirstAt, spans[0].LastAt
	for _, span := range spans {
		first, last = clickstore.Earlier(first, span.FirstAt), clickstore.Later(last, span.LastAt)
	}
	q := s.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id IN (?)", bun.In(workspaceIDs)).
		Where("clicked_at BETWEEN ? AND ?", first.UTC(), last.UTC()).
		WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
			for _, span := range spans {
				q = q.WhereOr("id BETWEEN ? AND ?", span.FirstID, span.LastID)
			}
			return q
		})
	if linkID != "" {
		q = q.Where("link_id = ?", linkID)
	}
	return scanClicks(ctx, q)
}

// Count implements clickstore.Store.
func (s *Store) Count(ctx context.Context, workspaceID string, after time.Time, below int64) (int64, error) {
	n, err := s.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", workspaceID).
		Where("clicked_at > ?", db.Instant(after)).Where("id < ?", below).Count(ctx)
	return int64(n), err
}

func scanClicks(ctx context.Context, q *bun.SelectQuery) ([]*click.Click, error) {
	var rows []*click.Row
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading clicks: %w", err)
	}
	clicks := make([]*click.Click, len(rows))
	for i, r := range rows {
		clicks[i] = r.Click()
	}
	return clicks, nil
}
