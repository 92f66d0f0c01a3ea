package db

import (
	"context"
	"strconv"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// Params are the values of one statement whose text is always the same: on PostgreSQL each
// connection keeps it prepared, and reads and plans it once. So it must have a plan that is good
// for every value (to look up whole keys has, some of the rows of a workspace has not: workspaces
// are large and small), and name the columns that it selects, since what a kept statement returns
// may not change. Nil writes values into the text, as SQLite has them.
type Params struct{ values []any }

// Params returns those of a statement that is about to be made.
func (d *DB) Params() *Params {
	if d.Kind != Postgres {
		return nil
	}
	return &Params{}
}

// Of stands for a value in the text.
func (p *Params) Of(value any) any {
	if p == nil {
		return value
	}
	p.values = append(p.values, value)
	return bun.Safe("$" + strconv.Itoa(len(p.values)))
}

// Among is what follows a column that is to be one of the values.
func Among[T any](p *Params, values []T) schema.QueryWithArgs {
	if p == nil {
		return bun.SafeQuery("IN (?)", bun.In(values))
	}
	return bun.SafeQuery("= ANY(?)", p.Of(values))
}

// Bind returns a context for the statement, and for nothing else.
func (p *Params) Bind(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return bind(ctx, p.values...)
}

// Unbound returns a context that Bind has returned without what it has added, and how many values
// that were: for who wants to know how the statement is planned.
func Unbound(ctx context.Context) (context.Context, int) {
	values, _ := ctx.Value(bound{}).([]any)
	return context.WithValue(ctx, bound{}, []any(nil)), max(0, len(values)-1) // the first says how to send them
}
