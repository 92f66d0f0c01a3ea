package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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
	conn *scopedConn
}

// startPipeline starts a pipeline with the change to a scope. The scope of the session is unknown until the server
// has confirmed it.
func (c *scopedConn) startPipeline(ctx context.Context, wanted scope) pipeline {
	p := pipeline{c.Conn.Conn().PgConn().StartPipeline(ctx), c}
	waits := c.patience
	if wanted.role == systemRole || wanted.role == ownerRole {
		waits = forEver
	}
	if wanted.brief && waits.list != "0" {
		waits.statement = waits.list
	}
	if wanted.shortLockTimeout {
		waits.lock = shortLockTimeout
	}
	var values [][]byte
	for _, text := range []string{wanted.role, wanted.workspace, wanted.account, waits.statement, waits.lock} {
		values = append(values, []byte(text))
	}
	p.SendQueryPrepared(scopeStatement, values, nil, nil)
	c.current = scope{}
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
func (c *scopedConn) queryInScope(ctx context.Context, wanted scope, q query) (*pipelineRows, error) {
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
func (c *scopedConn) execInScope(ctx context.Context, wanted scope, q query) (driver.Result, error) {
	rows, err := c.queryInScope(ctx, wanted, q)
	if err != nil {
		return nil, err
	}
	err = rows.Close()
	return driver.RowsAffected(rows.CommandTag().RowsAffected()), err
}

// enter changes the scope.
func (c *scopedConn) enter(ctx context.Context, wanted scope) error {
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
func (p pipeline) rows(wanted scope) (*pipelineRows, error) {
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
func (q query) encode(c *scopedConn) (values pgx.ExtendedQueryBuilder, err error) {
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
func (c *scopedConn) beginInScope(ctx context.Context, wanted scope) error {
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

// pipelineRows are the rows of a query in a pipeline.
type pipelineRows struct {
	pgx.Rows
	pipeline pipeline
	scope    scope
	columns  []string
	decoders []decoder
	hasFirst bool // the first row was read and not returned
}

// decoder returns the value of a column as database/sql knows it.
type decoder func(encoded []byte) (driver.Value, error)

func (r *pipelineRows) describe(m *pgtype.Map) {
	for _, f := range r.FieldDescriptions() {
		r.columns, r.decoders = append(r.columns, f.Name), append(r.decoders, decoderOf(m, f))
	}
}

func decoderOf(m *pgtype.Map, f pgconn.FieldDescription) decoder {
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		return decodeAs[bool](m, f)
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return decodeAs[int64](m, f)
	case pgtype.Float4OID, pgtype.Float8OID:
		return decodeAs[float64](m, f)
	case pgtype.ByteaOID, pgtype.JSONOID, pgtype.JSONBOID:
		return decodeAs[[]byte](m, f)
	case pgtype.DateOID:
		return decodeValue[pgtype.Date](m, f)
	case pgtype.TimestampOID:
		return decodeValue[pgtype.Timestamp](m, f)
	case pgtype.TimestamptzOID:
		return decodeValue[pgtype.Timestamptz](m, f)
	case pgtype.OIDOID, pgtype.XIDOID, pgtype.CIDOID:
		return decodeValue[pgtype.Uint32](m, f)
	}
	return decodeAs[string](m, f)
}

// decodeAs decodes a type that is a driver.Value.
func decodeAs[T any](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	plan := m.PlanScan(f.DataTypeOID, f.Format, new(T))
	return func(encoded []byte) (driver.Value, error) {
		var value T
		err := plan.Scan(encoded, &value)
		return value, err
	}
}

// decodeValue decodes a type that has a driver.Value.
func decodeValue[T driver.Valuer](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	plan := m.PlanScan(f.DataTypeOID, f.Format, new(T))
	return func(encoded []byte) (driver.Value, error) {
		var value T
		if err := plan.Scan(encoded, &value); err != nil {
			return nil, err
		}
		return value.Value()
	}
}

// Columns implements driver.Rows.
func (r *pipelineRows) Columns() []string { return slices.Clone(r.columns) }

// Next implements driver.Rows.
func (r *pipelineRows) Next(row []driver.Value) error {
	if !r.hasFirst && !r.Rows.Next() {
		if err := r.Close(); err != nil { // also one of the commit
			return err
		}
		return io.EOF
	}
	r.hasFirst = false
	for i, encoded := range r.RawValues() {
		row[i] = nil
		if encoded == nil {
			continue
		}
		var err error
		if row[i], err = r.decoders[i](encoded); err != nil {
			return fmt.Errorf("decoding the column %s: %w", r.columns[i], err)
		}
	}
	return nil
}

// Close implements driver.Rows. The session has the scope once the query has succeeded.
func (r *pipelineRows) Close() error {
	r.Rows.Close()
	if r.pipeline.Pipeline == nil { // further statements of it follow, or it is closed
		return r.Err()
	}
	err := errors.Join(r.Err(), r.pipeline.Close())
	if err == nil {
		r.pipeline.conn.current = r.scope
	}
	r.pipeline.Pipeline = nil
	return err
}
