package db

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
)

// Lookup is a query, with its parameters and where its rows go. The zero Lookup finds nothing.
type Lookup struct {
	Query interface {
		schema.QueryAppender
		Scan(ctx context.Context, dest ...any) error
	}
	Params *Params
	Dest   any
}

// Run executes the query.
func (l Lookup) Run(ctx context.Context) error {
	if l.Query == nil {
		return nil
	}
	return l.Query.Scan(l.Params.Bind(ctx), l.Dest)
}

// Pipe executes lookups of a transaction: on PostgreSQL all are sent at once, in one round trip.
func (d *DB) Pipe(ctx context.Context, tx bun.Tx, all ...Lookup) error {
	var texts []string
	var values [][]any
	for _, l := range all {
		if l.Query == nil {
			continue
		}
		text, err := l.Query.AppendQuery(d.QueryGen(), nil)
		if err != nil {
			return err
		}
		texts, values = append(texts, string(text)), append(values, l.Params.list())
	}
	if conn, _ := ctx.Value(inTx{}).(*sql.Conn); conn != nil && len(texts) > 1 {
		err := onConn(conn, func(c *pgscope.Conn) error { return c.SendAhead(ctx, texts, values) })
		if err != nil {
			return err
		}
	}
	for _, l := range all {
		if err := l.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *Params) list() []any {
	if p == nil {
		return nil
	}
	return p.values
}

// onConn calls f with the connection of a transaction. database/sql does not see the error: it
// would close a bad connection at once, and wait for the transaction, which waits for f.
func onConn(conn *sql.Conn, f func(c *pgscope.Conn) error) (err error) {
	raw := conn.Raw(func(c any) error {
		err = f(c.(*pgscope.Conn))
		return nil
	})
	return cmp.Or(raw, err)
}
