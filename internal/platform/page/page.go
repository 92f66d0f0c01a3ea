// Package page owns the common part of all Relay connections: checks of arguments, cursors, and the
// selection of one page in SQL. It does not know the listed objects. Stores with lists and package
// graph call it.
package page

import (
	"cmp"
	"context"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// Max is the largest page, Default the size of one when neither first nor last is given.
const (
	Max     = 100
	Default = 20
)

// Order is the order of a connection: by a value with IDs as tie-breaker, or by ID alone. The zero
// Order is by ID, newest first.
type Order struct {
	// Name distinguishes cursors of this order from those of others. Empty means order by ID alone.
	Name string
	// Numbers says that the values are whole numbers (int64); else they are text.
	Numbers bool
	// Ascending lists the smallest value first.
	Ascending bool
}

// Request describes one page. The zero Order and a Size are enough.
type Request struct {
	// Order is the order that the pages are cut from.
	Order Order
	// Size is how many items the page holds at most, 1 to Max.
	Size int
	// Backward selects the last items before Before instead of the first ones after After.
	Backward bool
	// After and Before are the ids between which the page lies, both exclusive; empty means open.
	After, Before string
	// AfterValue and BeforeValue are the values that the order compares before those ids, int64 or
	// string; nil in an order of ids.
	AfterValue, BeforeValue any
}

// Parse checks the arguments of a connection in the order of ids, newest first, where cursors stand
// for ids of the prefix. It returns InvalidInput.
func Parse(p id.Prefix, first *int, after *string, last *int, before *string) (Request, error) {
	return Order{}.Parse(p, first, after, last, before)
}

// Parse checks the arguments of a connection in this order, whose items have ids of the prefix. A
// cursor of another order is refused. Items of an empty prefix have no ids: their texts are
// distinct, and After and Before are texts. It returns InvalidInput.
func (o Order) Parse(p id.Prefix, first *int, after *string, last *int, before *string) (Request, error) {
	var bothErr, sizeErr, afterErr, beforeErr error
	if first != nil && last != nil {
		bothErr = errs.New(errs.InvalidInput, "Give first or last, not both.").At("last")
	}
	r, size := Request{Order: o, Size: Default}, "first"
	if first != nil {
		r.Size = *first
	}
	if last != nil {
		r.Size, r.Backward, size = *last, true, "last"
	}
	if r.Size < 1 || r.Size > Max {
		sizeErr = errs.New(errs.InvalidInput, "%s must be from 1 to %d.", size, Max).At(size)
	}
	r.AfterValue, r.After, afterErr = o.decode(p, after, "after")
	r.BeforeValue, r.Before, beforeErr = o.decode(p, before, "before")
	if p == "" {
		r.After, _ = r.AfterValue.(string)
		r.Before, _ = r.BeforeValue.(string)
	}
	return r, errs.All(cmp.Or(bothErr, sizeErr), afterErr, beforeErr)
}

// Size checks the argument first of a list. It returns InvalidInput.
func Size(first *int) (int, error) {
	r, err := Parse("", first, nil, nil, nil)
	return r.Size, err
}

// Page is one page, in the connection's order.
type Page[T any] struct {
	Items []T
	// Cursors are the items' cursors. They are nil where Cursor makes them of the items' ids.
	Cursors []string
	// HasNext and HasPrevious say whether there are items beyond the page, at its end and its
	// start.
	HasNext, HasPrevious bool
	// End is the cursor after which the next page begins; empty if that is the last item's.
	End string
	// Total counts the items of all pages; nil for lists that are not counted.
	Total func(context.Context) (int64, error)
}

// Map returns the page with each item replaced.
func Map[T, U any](p Page[T], replace func(T) U) Page[U] {
	items := make([]U, len(p.Items))
	for i, item := range p.Items {
		items[i] = replace(item)
	}
	return Page[U]{
		Items: items, Cursors: p.Cursors, HasNext: p.HasNext, HasPrevious: p.HasPrevious, End: p.End, Total: p.Total,
	}
}

// Limit adds the bounds, order and limit of a request by ID to a query whose rows have their IDs in
// the column. It selects one row more than the page holds, for Cut.
func Limit(q *bun.SelectQuery, r Request, column string) *bun.SelectQuery {
	q = between(q, r, bun.Ident(column), r.After, r.Before)
	return q.OrderExpr("? ?", bun.Ident(column), r.direction()).Limit(int64(r.Size) + 1)
}

// LimitBy is Limit of a request by a value, which is any expression of SQL. Where an index has the
// value and the id, the database begins at the bound and sorts nothing: both take a comparison of
// rows from it.
func LimitBy(q *bun.SelectQuery, r Request, value, column string) *bun.SelectQuery {
	place := func(value, itemID any) schema.QueryWithArgs { return bun.SafeQuery("(?, ?)", value, itemID) }
	q = between(q, r, place(bun.Safe(value), bun.Ident(column)), place(r.AfterValue, r.After),
		place(r.BeforeValue, r.Before))
	return q.OrderExpr("? ?, ? ?", bun.Safe(value), r.direction(), bun.Ident(column), r.direction()).
		Limit(int64(r.Size) + 1)
}

// between keeps the places that lie after the one and before the other, where the request has them.
func between(q *bun.SelectQuery, r Request, place, after, before any) *bun.SelectQuery {
	beyond, within := bun.Safe("<"), bun.Safe(">")
	if r.Order.Ascending {
		beyond, within = within, beyond
	}
	if r.After != "" {
		q = q.Where("? ? ?", place, beyond, after)
	}
	if r.Before != "" {
		q = q.Where("? ? ?", place, within, before)
	}
	return q
}

// Upward reports whether the query reads rows in ascending order. A backward request reads them in
// reverse.
func (r Request) Upward() bool { return r.Order.Ascending != r.Backward }

func (r Request) direction() bun.Safe {
	if r.Upward() {
		return "ASC"
	}
	return "DESC"
}

// Among is the part of a request by numbers that lies among the items of one value, as a request by
// ids. It reports whether there is such a part.
func (r Request) Among(value int64) (Request, bool) {
	among := Request{Order: Order{Ascending: r.Order.Ascending}, Size: r.Size, Backward: r.Backward}
	sign := -1
	if r.Order.Ascending {
		sign = 1
	}
	if after, ok := r.AfterValue.(int64); ok {
		switch sign * cmp.Compare(value, after) {
		case -1:
			return Request{}, false
		case 0:
			among.After = r.After
		}
	}
	if before, ok := r.BeforeValue.(int64); ok {
		switch sign * cmp.Compare(value, before) {
		case 1:
			return Request{}, false
		case 0:
			among.Before = r.Before
		}
	}
	return among, true
}

// Cut builds the page from the rows of the database: up to Size+1, in the order of reading
// (reversed when Backward). The extra row shows that another page exists.
func Cut[T any](r Request, rows []T) Page[T] {
	more := len(rows) > r.Size
	if more {
		rows = rows[:r.Size]
	}
	if r.Backward {
		slices.Reverse(rows)
		return Page[T]{Items: rows, HasPrevious: more, HasNext: r.Before != ""}
	}
	return Page[T]{Items: rows, HasNext: more, HasPrevious: r.After != ""}
}
