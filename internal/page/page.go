// Package page holds what every Relay connection shares: its arguments, its cursors, and the cut of one page.
package page

import (
	"encoding/base64"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

// Max is the largest page, Default the size of one when neither first nor last is given.
const (
	Max     = 100
	Default = 20
)

// Request asks for one page of things that are ordered by id, newest first.
type Request struct {
	// Size is how many items the page holds at most, 1 to Max.
	Size int
	// Backward asks for the last items before Before, not for the first ones after After.
	Backward bool
	// After and Before are the ids between which the page lies, both exclusive; empty means open.
	After, Before string
}

// Parse checks a connection's arguments, where cursors stand for ids of the prefix. It returns InvalidInput.
func Parse(p id.Prefix, first *int, after *string, last *int, before *string) (Request, error) {
	if first != nil && last != nil {
		return Request{}, errs.New(errs.InvalidInput, "Give first or last, not both.").At("last")
	}
	r, size := Request{Size: Default}, "first"
	if first != nil {
		r.Size = *first
	}
	if last != nil {
		r.Size, r.Backward, size = *last, true, "last"
	}
	if r.Size < 1 || r.Size > Max {
		return Request{}, errs.New(errs.InvalidInput, "%s goes from 1 to %d.", size, Max).At(size)
	}
	var err error
	if r.After, err = decode(p, after, "after"); err != nil {
		return Request{}, err
	}
	r.Before, err = decode(p, before, "before")
	return r, err
}

// Cursor is the opaque cursor of the item with that id.
func Cursor(itemID string) string { return base64.RawURLEncoding.EncodeToString([]byte(itemID)) }

func decode(p id.Prefix, cursor *string, field string) (string, error) {
	if cursor == nil {
		return "", nil
	}
	itemID, err := base64.RawURLEncoding.DecodeString(*cursor)
	if err != nil || !id.Valid(p, string(itemID)) {
		return "", errs.New(errs.InvalidInput, "%s is not a cursor of this connection: use one from its edges or pageInfo.", field).At(field)
	}
	return string(itemID), nil
}

// Page is one page, in the connection's order.
type Page[T any] struct {
	Items []T
	// HasNext and HasPrevious say whether there are items beyond the page, at its end and its start.
	HasNext, HasPrevious bool
}

// Limit adds the request's bounds, order and limit to a query over rows whose ids are in the column. It asks
// for one row more than the page holds, for Cut.
func Limit(q *bun.SelectQuery, r Request, column string) *bun.SelectQuery {
	if r.After != "" {
		q = q.Where("? < ?", bun.Ident(column), r.After)
	}
	if r.Before != "" {
		q = q.Where("? > ?", bun.Ident(column), r.Before)
	}
	if r.Backward {
		return q.OrderExpr("? ASC", bun.Ident(column)).Limit(int64(r.Size) + 1)
	}
	return q.OrderExpr("? DESC", bun.Ident(column)).Limit(int64(r.Size) + 1)
}

// Cut makes the page from what the database gave: up to Size+1 rows, in the order of walking (reversed when
// Backward). The extra row only says that there is more.
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
