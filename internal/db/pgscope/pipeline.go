package pgscope

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// scopeStatement is the name of the prepared statement that changes the scope of a session.
const scopeStatement = "linkforge_scope"

// setScope changes the scope of a session.
const setScope = "SELECT set_config('role', $1, false), set_config('linkforge.workspace', $2, false), " +
	"set_config('linkforge.account', $3, false), set_config('statement_timeout', $4, false), " +
	"set_config('lock_timeout', $5, false)"

// pipeline sends a change of the scope and a statement in one round trip.
type pipeline struct {
	*pgconn.Pipeline
	conn *Conn
}

// startPipeline starts a pipeline with the change to a scope. The scope of the session is unknown until the server
// has confirmed it.
func (c *Conn) startPipeline(ctx context.Context, wanted Scope) pipeline {
	p := pipeline{c.Conn.Conn().PgConn().StartPipeline(ctx), c}
	waits := c.timeouts
	if wanted.Role == System || wanted.Role == Owner {
		waits = Timeouts{}
	}
	if wanted.Brief && waits.List != 0 {
		waits.Statement = waits.List
	}
	if wanted.ShortLockTimeout {
		waits.Lock = shortLockTimeout
	}
	values := [][]byte{[]byte(wanted.Role), []byte(wanted.Workspace), []byte(wanted.Account)}
	for _, wait := range []time.Duration{waits.Statement, waits.Lock} {
		values = append(values, strconv.AppendInt(nil, wait.Milliseconds(), 10))
	}
	p.SendQueryPrepared(scopeStatement, values, nil, nil)
	c.current = Scope{}
	return p
}

// enterScope reads the response to the change of the scope.
func (p pipeline) enterScope() error {
	results, err := p.GetResults()
	if err != nil {
		return fmt.Errorf("entering a scope: %w", err)
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("entering a scope: the server answered %T", results)
	}
	if _, err := reader.Close(); err != nil {
		return fmt.Errorf("entering a scope: %w", err)
	}
	return nil
}

// end reads all further responses, and closes the pipeline. It returns the first error, which is ErrBadConn if nothing
// has reached the server.
func (p pipeline) end(err error) error {
	closing := p.Close()
	if pgconn.SafeToRetry(err) || pgconn.SafeToRetry(closing) {
		return driver.ErrBadConn
	}
	return cmp.Or(err, closing)
}

// queryInScope changes the scope and runs a query, whose rows it returns. Both are one transaction: without
// the scope the query does not run, and a query that fails leaves the scope unknown.
func (c *Conn) queryInScope(ctx context.Context, wanted Scope, q query) (*pipelineRows, error) {
	values, err := q.encode(c)
	if err != nil {
		return nil, err
	}
	p := c.startPipeline(ctx, wanted)
	q.send(p, values)
	rows, err := p.rows(wanted)
	if err == nil {
		return rows, nil
	}
	return nil, p.end(err)
}

// execInScope is queryInScope of a statement without rows.
func (c *Conn) execInScope(ctx context.Context, wanted Scope, q query) (driver.Result, error) {
	rows, err := c.queryInScope(ctx, wanted, q)
	if err != nil {
		return nil, err
	}
	err = rows.Close()
	return driver.RowsAffected(rows.CommandTag().RowsAffected()), err
}

// enter changes the scope.
func (c *Conn) enter(ctx context.Context, wanted Scope) error {
	p := c.startPipeline(ctx, wanted)
	err := p.Sync()
	if err == nil {
		err = p.enterScope()
	}
	if err = p.end(err); err == nil {
		c.current = wanted
	}
	return err
}

// rows sends the pipeline and returns the rows of its query.
func (p pipeline) rows(wanted Scope) (*pipelineRows, error) {
	if err := p.Sync(); err != nil {
		return nil, err
	}
	if err := p.enterScope(); err != nil {
		return nil, err
	}
	results, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("running a query: the server answered %T", results)
	}
	m := p.conn.Conn.Conn().TypeMap()
	rows := &pipelineRows{Rows: pgx.RowsFromResultReader(m, reader), pipeline: p, scope: wanted}
	rows.describe(m)
	rows.hasFirst = rows.Rows.Next() // an error of the query is one of the call
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return rows, nil
}

// query is a statement with its values.
type query struct {
	text     string
	args     []driver.NamedValue
	prepared *pgconn.StatementDescription // nil for one that is sent as text
}

// encode encodes the values.
func (q query) encode(c *Conn) (values pgx.ExtendedQueryBuilder, err error) {
	all := make([]any, 0, len(q.args))
	for _, a := range q.args {
		all = append(all, a.Value)
	}
	err = values.Build(c.Conn.Conn().TypeMap(), q.prepared, all)
	return values, err
}

// send sends the statement. Its rows are text.
func (q query) send(p pipeline, values pgx.ExtendedQueryBuilder) {
	if q.prepared != nil {
		p.SendQueryPrepared(q.prepared.Name, values.ParamValues, values.ParamFormats, nil)
		return
	}
	p.SendQueryParams(q.text, values.ParamValues, nil, values.ParamFormats, nil)
}

// begin begins a transaction.
const begin = "BEGIN"

// beginInScope changes the scope and begins a transaction. It closes the connection unless both succeed.
func (c *Conn) beginInScope(ctx context.Context, wanted Scope) error {
	p := c.startPipeline(ctx, wanted)
	p.SendPipelineSync() // so that a rollback of the transaction keeps the scope
	p.SendQueryParams(begin, nil, nil, nil, nil)
	err := p.Sync()
	if err == nil {
		err = p.enterScope()
	}
	if err = p.end(err); err == nil { // it has read the response to BEGIN
		c.current = wanted
	} else if !errors.Is(err, driver.ErrBadConn) {
		_ = c.Conn.Conn().Close(ctx)
	}
	return err
}
