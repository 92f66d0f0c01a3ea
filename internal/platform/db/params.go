package db

import (
	"context"
	"strconv"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
)

// Params are the values of a prepared statement on PostgreSQL, where each connection parses and
// plans it once. Its plan must therefore suit every value, as for lookups by whole keys, and it
// must name its columns, since the result of a prepared statement may not change. Nil writes values
// into the text, for SQLite.
type Params struct{ values []any }

// Params returns the parameters of a new statement.
func (d *DB) Params() *Params {
	if d.Kind != Postgres {
		return nil
	}
	return &Params{}
}

// Of adds a value and returns its placeholder.
func (p *Params) Of(value any) any {
	if p == nil {
		return value
	}
	p.values = append(p.values, value)
	return bun.Safe("$" + strconv.Itoa(len(p.values)))
}

// Among returns the condition, to follow a column, that it is one of the values.
func Among[T any](p *Params, values []T) schema.QueryWithArgs {
	if p == nil {
		return bun.SafeQuery("IN (?)", bun.In(values))
	}
	return bun.SafeQuery("= ANY(?)", p.Of(values))
}

// Bind returns a context for this statement only.
func (p *Params) Bind(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return pgscope.Bind(ctx, p.values...)
}

// Unbound removes what Bind has added to a context and returns the number of values. It is for
// tests of query plans.
func Unbound(ctx context.Context) (context.Context, int) {
	return pgscope.Bind(ctx), len(pgscope.Bound(ctx))
}
