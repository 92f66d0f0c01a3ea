package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// identify returns the ID of an object, and that of the account its fields may show; empty if there
// is none.
type identify[T any] func(T) (id, accountID string)

// list returns the edges and the items of a page of an owner's objects, and expects their accounts
// to be requested.
func list[O, T, E any](
	ctx context.Context, owner O, prefix id.Prefix, first *int, after *string,
	load func(ctx context.Context, owner O, r page.Request) (page.Page[T], error),
	ids identify[T], edge func(cursor string, node T) E,
) ([]E, []T, *gen.PageInfo, error) {
	request, err := page.Parse(prefix, first, after, nil, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := load(ctx, owner, request)
	if err != nil {
		return nil, nil, nil, err
	}
	edges, cursors, accounts := make([]E, 0, len(p.Items)), make([]string, 0, len(p.Items)), []string{}
	for _, item := range p.Items {
		itemID, accountID := ids(item)
		cursor := page.Cursor(itemID)
		edges, cursors = append(edges, edge(cursor, item)), append(cursors, cursor)
		if id.Valid(id.Account, accountID) {
			accounts = append(accounts, accountID)
		}
	}
	loader.Of(ctx).Accounts.Expect(accounts)
	return edges, p.Items, pageInfo(p, cursors), nil
}

// pageInfo describes a page whose edges have the cursors.
func pageInfo[T any](p page.Page[T], cursors []string) *gen.PageInfo {
	info := &gen.PageInfo{HasNextPage: p.HasNext, HasPreviousPage: p.HasPrevious}
	if n := len(cursors); n > 0 {
		info.StartCursor, info.EndCursor = &cursors[0], &cursors[n-1]
	}
	if p.End != "" {
		info.EndCursor = &p.End
	}
	return info
}
