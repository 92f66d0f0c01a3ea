package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
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
		err := conn.Raw(func(c any) error { return c.(*scopedConn).sendAhead(ctx, texts, values) })
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

// ahead are statements whose results a connection has not read yet. They are executed in the same order.
type ahead struct {
	pipeline pipeline
	texts    []string
}

// sendAhead sends prepared statements of the scope of the transaction.
func (c *scopedConn) sendAhead(ctx context.Context, texts []string, values [][]any) error {
	queries, encoded := make([]query, len(texts)), make([]pgx.ExtendedQueryBuilder, len(texts))
	for i, text := range texts {
		var err error
		if queries[i], _, err = c.prepare(bind(ctx, values[i]...), text, nil); err == nil {
			encoded[i], err = queries[i].encode(c)
		}
		if err != nil {
			return c.explain(ctx, err)
		}
	}
	p := pipeline{c.Conn.Conn().PgConn().StartPipeline(ctx), c}
	for i, q := range queries {
		q.send(p, encoded[i])
	}
	if err := p.Sync(); err != nil {
		return c.explain(ctx, p.end(err))
	}
	c.ahead = &ahead{p, texts}
	return nil
}

// queryAhead returns the rows of the next statement that was sent ahead.
func (c *scopedConn) queryAhead(text string) (driver.Rows, error) {
	a := c.ahead
	if text != a.texts[0] {
		return nil, c.endAhead(fmt.Errorf("a statement that was not sent: %s", describeText(text)))
	}
	results, err := a.pipeline.GetResults()
	reader, ok := results.(*pgconn.ResultReader)
	if err == nil && !ok {
		err = fmt.Errorf("running a query: the server answered %T", results)
	}
	if err != nil {
		return nil, c.endAhead(err)
	}
	m := c.Conn.Conn().TypeMap()
	rows := &pipelineRows{Rows: pgx.RowsFromResultReader(m, reader), scope: c.current}
	if a.texts = a.texts[1:]; len(a.texts) == 0 {
		rows.pipeline, c.ahead = a.pipeline, nil
	}
	rows.describe(m)
	return rows, nil
}

// endAhead skips the results that were not read.
func (c *scopedConn) endAhead(err error) error {
	a := c.ahead
	if c.ahead = nil; a == nil {
		return err
	}
	return a.pipeline.end(err)
}

func describeText(text string) string {
	operation, table := describe(text)
	return operation + " " + table
}
