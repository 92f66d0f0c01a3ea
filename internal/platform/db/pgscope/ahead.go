package pgscope

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
)

// ahead are statements whose results a connection has not read yet. They are executed in the same
// order.
type ahead struct {
	pipeline pipeline
	texts    []string
}

// SendAhead sends prepared statements of a transaction, which must be run next, in the same order.
func (c *Conn) SendAhead(ctx context.Context, texts []string, values [][]any) error {
	queries, encoded := make([]query, len(texts)), make([]pgx.ExtendedQueryBuilder, len(texts))
	enters := false
	for i, text := range texts {
		var err error
		if queries[i], enters, err = c.prepare(Bind(ctx, values[i]...), text, nil); err == nil {
			encoded[i], err = queries[i].encode(c)
		}
		if err != nil {
			return c.explain(ctx, err)
		}
	}
	p := c.startPipeline(ctx, enters)
	for i, q := range queries {
		q.send(p, encoded[i])
	}
	if err := p.enter(); err != nil {
		return c.explain(ctx, p.end(err))
	}
	c.ahead = &ahead{p, texts}
	return nil
}

// queryAhead returns the rows of the next statement that was sent ahead.
func (c *Conn) queryAhead(text string) (driver.Rows, error) {
	a := c.ahead
	if text != a.texts[0] {
		return nil, c.endAhead(errors.New("a statement is not the next one that was sent ahead"))
	}
	reader, err := a.pipeline.result()
	if err != nil {
		return nil, c.endAhead(err)
	}
	m := c.Conn.Conn().TypeMap()
	rows := &pipelineRows{Rows: pgx.RowsFromResultReader(m, reader)}
	if a.texts = a.texts[1:]; len(a.texts) == 0 {
		rows.pipeline, c.ahead = a.pipeline.Pipeline, nil
	}
	rows.describe(m)
	return rows, nil
}

// endAhead skips the results that were not read.
func (c *Conn) endAhead(err error) error {
	a := c.ahead
	if c.ahead = nil; a == nil {
		return err
	}
	return a.pipeline.end(err)
}
