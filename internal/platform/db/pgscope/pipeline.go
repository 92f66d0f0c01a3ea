package pgscope

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// scopeStatement is the name of the prepared statement that sets the scope of a transaction.
const scopeStatement = "linkforge_scope"

// setScope sets the scope of a transaction. Statements of Bind are planned once, for all values:
// PostgreSQL would otherwise weigh a plan for the values of each call. The transaction of a process
// that hangs ends: others wait for its locks, and readers of events for the oldest transaction.
const setScope = "SELECT set_config('role', $1, true), set_config('linkforge.workspace', $2, true), " +
	"set_config('linkforge.account', $3, true), set_config('statement_timeout', $4, true), " +
	"set_config('lock_timeout', $5, true), set_config('plan_cache_mode', 'force_generic_plan', true), " +
	"set_config('idle_in_transaction_session_timeout', '30s', true)"

// ErrScope is the error of a statement that did not run because its scope could not be entered.
// That of PostgreSQL says nothing of the values of the statement.
var ErrScope = errors.New("entering a scope")

// pipeline sends a scope and statements in one round trip.
type pipeline struct {
	*pgconn.Pipeline
	entering, deferred int // responses that precede those of the statements
}

// deferred is a statement of the transaction that was not sent yet.
type deferred struct {
	query
	values pgx.ExtendedQueryBuilder
}

// startPipeline starts a pipeline with the deferred statements. If it enters a scope, that is the
// one of the transaction, which it begins, or else that of the context.
func (c *Conn) startPipeline(ctx context.Context, enters bool) pipeline {
	p := pipeline{Pipeline: c.Conn.Conn().PgConn().StartPipeline(ctx)}
	if enters {
		p.entering = c.sendScope(ctx, p)
	}
	for _, d := range c.deferred {
		d.send(p, d.values)
	}
	p.deferred, c.deferred = len(c.deferred), nil
	return p
}

// sendScope returns the number of responses.
func (c *Conn) sendScope(ctx context.Context, p pipeline) (responses int) {
	wanted := Of(ctx)
	if c.tx != nil {
		wanted, c.tx.hasBegun = c.tx.scope, true
		p.SendQueryParams(c.tx.begin, nil, nil, nil, nil)
		responses++
	}
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
	return responses + 1
}

// enter sends the pipeline, and reads the responses that precede those of its statements.
func (p pipeline) enter() error {
	if err := p.Sync(); err != nil {
		return err
	}
	for range p.entering {
		if _, err := p.nextTag(); err != nil {
			return fmt.Errorf("%w: %w", ErrScope, err)
		}
	}
	for range p.deferred {
		if _, err := p.nextTag(); err != nil {
			return err
		}
	}
	return nil
}

// tag sends the pipeline, and returns the outcome of its statement, which has no rows.
func (p pipeline) tag() (pgconn.CommandTag, error) {
	if err := p.enter(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return p.nextTag()
}

// nextTag returns the outcome of the next statement, whose rows are skipped.
func (p pipeline) nextTag() (tag pgconn.CommandTag, err error) {
	reader, err := p.result()
	if err == nil {
		tag, err = reader.Close()
	}
	return tag, err
}

// result returns the result of the next statement.
func (p pipeline) result() (*pgconn.ResultReader, error) {
	results, err := p.GetResults()
	reader, ok := results.(*pgconn.ResultReader)
	if err == nil && !ok {
		err = fmt.Errorf("running a query: the server answered %T", results)
	}
	return reader, err
}

// end reads all further responses, and closes the pipeline. It returns the first error, which is
// ErrBadConn if nothing has reached the server.
func (p pipeline) end(err error) error {
	closing := p.Close()
	if pgconn.SafeToRetry(err) || pgconn.SafeToRetry(closing) {
		return driver.ErrBadConn
	}
	return cmp.Or(err, closing)
}

// queryInPipeline runs a query, and returns its rows. If it enters its scope both are one
// transaction: without the scope the query does not run.
func (c *Conn) queryInPipeline(ctx context.Context, q query, enters bool) (*pipelineRows, error) {
	values, err := q.encode(c)
	if err != nil {
		return nil, err
	}
	p := c.startPipeline(ctx, enters)
	q.send(p, values)
	rows, err := c.rows(p)
	if err == nil {
		return rows, nil
	}
	return nil, p.end(err)
}

// execInPipeline is queryInPipeline of a statement without rows.
func (c *Conn) execInPipeline(ctx context.Context, q query, enters bool) (driver.Result, error) {
	rows, err := c.queryInPipeline(ctx, q, enters)
	if err != nil {
		return nil, err
	}
	err = rows.Close()
	return driver.RowsAffected(rows.CommandTag().RowsAffected()), err
}

// prepareInScope prepares a statement, whose tables may be locked, with the timeouts of its scope.
func (c *Conn) prepareInScope(ctx context.Context, text string, enters bool) (*pgconn.StatementDescription, error) {
	p, name := c.startPipeline(ctx, enters), fmt.Sprintf("linkforge_%x", sha256.Sum224([]byte(text)))
	p.SendPrepare(name, text, nil)
	err := p.enter()
	var results any
	if err == nil {
		results, err = p.GetResults()
	}
	prepared, ok := results.(*pgconn.StatementDescription)
	if err == nil && !ok {
		err = fmt.Errorf("preparing a statement: the server answered %T", results)
	}
	if err = p.end(err); err == nil {
		prepared.Name = name
	}
	return prepared, err
}

// flush begins the transaction where enters is true, and executes the deferred statements.
func (c *Conn) flush(ctx context.Context, enters bool) error {
	p := c.startPipeline(ctx, enters)
	return p.end(p.enter())
}

// rows sends the pipeline and returns the rows of its query.
func (c *Conn) rows(p pipeline) (*pipelineRows, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	reader, err := p.result()
	if err != nil {
		return nil, err
	}
	m := c.Conn.Conn().TypeMap()
	rows := &pipelineRows{Rows: pgx.RowsFromResultReader(m, reader), pipeline: p.Pipeline}
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
