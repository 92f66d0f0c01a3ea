package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// identify returns the ID of an object, and that of the account its fields may show; empty if there
// is none.
type identify[T any] func(T) (id, accountID string)

// newest is the order of lists by ID.
var newest page.Order

// list returns a page of an owner's objects, an empty one with an error, and expects their accounts to
// be requested. ids is nil for pages that are loaded with their cursors. checks are the errors of
// the other arguments.
func list[O, T any](
	ctx context.Context, owner O, order page.Order, prefix id.Prefix, first *int, after *string,
	load func(ctx context.Context, owner O, r page.Request) (page.Page[T], error), ids identify[T],
	checks ...error,
) (*gen.Connection[T], error) {
	c := &gen.Connection[T]{}
	request, err := order.Parse(prefix, first, after, nil, nil)
	if err = errs.All(err, errs.All(checks...)); err == nil {
		c.Page, err = load(ctx, owner, request)
	}
	if err != nil || ids == nil {
		return c, err
	}
	for _, item := range c.Items {
		itemID, _ := ids(item)
		c.Cursors = append(c.Cursors, page.Cursor(itemID))
	}
	expectAccounts(ctx, c.Items, ids)
	return c, nil
}

// notNull returns an empty list for nil, which would be null in the response.
func notNull[T any](list []T, err error) ([]T, error) {
	if list == nil {
		list = []T{}
	}
	return list, err
}

// expectAccounts expects the accounts of objects to be requested.
func expectAccounts[T any](ctx context.Context, items []T, ids identify[T]) {
	loader.Expect(&loader.Of(ctx).Accounts, items, func(item T) string {
		_, accountID := ids(item)
		return ofType(id.Account, accountID)
	})
}

// ofType returns an ID if it has the prefix; empty for others.
func ofType(p id.Prefix, itemID string) string {
	if !id.Valid(p, itemID) {
		return ""
	}
	return itemID
}
