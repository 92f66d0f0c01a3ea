package pgscope

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Connector makes connections that run each statement in the scope of its context.
type Connector struct {
	driver.Connector
	Timeouts Timeouts
}

// Connect implements driver.Connector.
func (c Connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	own := &Conn{Conn: conn.(*stdlib.Conn), timeouts: c.Timeouts}
	err = own.startSession(ctx)
	if err != nil {
		_ = own.Close()
		return nil, explain(ctx, err)
	}
	return own, nil
}

// startSession leaves the session with one prepared statement, that of the scope. A pooler may have
// given it to another client before, which has prepared others under the names of ours.
func (c *Conn) startSession(ctx context.Context) error {
	c.prepared = map[string]bool{}
	err := c.Conn.Conn().DeallocateAll(ctx)
	if err == nil {
		_, err = c.Conn.Conn().Prepare(ctx, scopeStatement, setScope)
	}
	c.needsReset = err != nil
	return err
}

// Conn is a pooled connection that runs each statement in the scope of its context. Outside of a
// transaction a statement is one with its scope; a transaction begins, and enters its scope, with
// its first statement. Either costs no further round trip. Nothing of it stays in the session,
// which a pooler may give to another client after each transaction.
type Conn struct {
	*stdlib.Conn
	timeouts Timeouts
	tx       *transaction // nil outside of one
	standby  bool         // the server cannot be written to any more
	ahead    *ahead
	// prepared are the texts of the prepared statements. needsReset means that the session has not
	// those, or that one of them does not work any more, as after a migration.
	prepared   map[string]bool
	needsReset bool
}

// transaction is one that the server has begun, or will begin with its first statement.
type transaction struct {
	scope Scope
	// pending are sent with the next statement: those that begin it, and those that are deferred.
	pending  *pgx.Batch
	hasBegun bool
}

var errOtherScope = errors.New("a statement of another scope within a transaction")

// check returns an error unless a statement can run in its scope.
func (c *Conn) check(ctx context.Context) error {
	switch {
	case c.tx != nil && !c.tx.scope.has(Of(ctx)):
		return errOtherScope
	case c.Conn.Conn().IsClosed():
		return driver.ErrBadConn
	case c.tx != nil && c.tx.hasBegun && c.Conn.Conn().PgConn().TxStatus() == 'I':
		return errRolledBack // BEGIN has failed: without it the statement would run in no scope
	case c.needsReset && (c.tx == nil || !c.tx.hasBegun):
		return c.startSession(ctx)
	}
	return nil
}

// QueryContext implements driver.QueryerContext.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.query(ctx, query, args)
	return rows, c.explain(ctx, err)
}

func (c *Conn) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.ahead != nil {
		return c.queryAhead(text)
	}
	values, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if isSentAlone(ctx) {
		return c.Conn.QueryContext(ctx, text, args)
	}
	return c.run(ctx, text, values)
}

// ExecContext implements driver.ExecerContext.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.exec(ctx, query, args)
	return result, c.explain(ctx, err)
}

func (c *Conn) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	values, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if isSentAlone(ctx) {
		return c.Conn.ExecContext(ctx, text, args)
	}
	if c.tx != nil && c.prepared[text] && ctx.Value(deferredKey{}) != nil {
		c.tx.pending.Queue(text, values...)
		return driver.RowsAffected(0), nil
	}
	all, err := c.run(ctx, text, values)
	if err != nil {
		return nil, err
	}
	err = all.Close()
	return driver.RowsAffected(all.CommandTag().RowsAffected()), err
}

// isSentAlone reports whether a statement is sent alone: it may be a migration, which is many
// statements, or one that cannot run in a transaction.
func isSentAlone(ctx context.Context) bool { return Of(ctx).Role == Owner && Bound(ctx) == nil }

// prepare prepares a statement with parameters, unless it is prepared, and returns its values.
func (c *Conn) prepare(ctx context.Context, text string, args []driver.NamedValue) (values []any, err error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	for _, a := range args {
		values = append(values, a.Value)
	}
	bound := Bound(ctx)
	switch {
	case bound != nil && !c.prepared[text]:
		err = c.prepareInScope(ctx, text)
	case isSentAlone(ctx):
		err = c.flush(ctx)
	}
	return append(values, bound...), err
}

// explain also notes that the server became a standby, so that the pool connects to the new
// primary, and that the session has lost its prepared statements.
func (c *Conn) explain(ctx context.Context, err error) error {
	switch Code(err) {
	case readOnlyTransaction:
		c.standby = true
	case duplicatePreparedStatement, invalidStatementName, featureNotSupported: // the last one for changed columns
		c.needsReset = true
	}
	return explain(ctx, err)
}

// IsValid implements driver.Validator.
func (c *Conn) IsValid() bool { return !c.standby }

// BeginTx implements driver.ConnBeginTx.
func (c *Conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	begin := "BEGIN"
	switch options {
	case driver.TxOptions{}:
	case driver.TxOptions{Isolation: driver.IsolationLevel(sql.LevelRepeatableRead), ReadOnly: true}:
		begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	default:
		return nil, errors.New("transactions have no options, but for snapshots")
	}
	c.tx = &transaction{scope: Of(ctx), pending: &pgx.Batch{}}
	c.tx.pending.Queue(begin)
	c.enter(c.tx.pending, c.tx.scope)
	return scopedTx{ctx, c}, nil
}

var errNoTx = errors.New("rows are copied within transactions only")

// CopyFrom copies rows into a table, within a transaction.
func (c *Conn) CopyFrom(ctx context.Context, table string, columns []string, rows pgx.CopyFromSource) error {
	if c.tx == nil {
		return errNoTx
	}
	err := c.check(ctx)
	if err == nil {
		err = c.flush(ctx)
	}
	if err == nil {
		_, err = c.Conn.Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, rows)
	}
	return c.explain(ctx, err)
}

// Prepare implements driver.Conn. A prepared statement of database/sql would outlive its scope.
func (c *Conn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *Conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return c.Prepare(query)
}

// scopedTx is a transaction of one scope.
type scopedTx struct {
	ctx  context.Context
	conn *Conn
}

// errRolledBack is the outcome of a commit after a statement that failed.
var errRolledBack = errors.New("the transaction was rolled back, as a statement of it has failed")

// Commit implements driver.Tx.
func (t scopedTx) Commit() error {
	tag, err := t.end(t.ctx, "COMMIT")
	if err == nil && tag == "ROLLBACK" {
		err = errRolledBack
	}
	return t.conn.explain(t.ctx, err)
}

// Rollback implements driver.Tx. The context may have ended.
func (t scopedTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), rollbackTimeout)
	defer cancel()
	t.conn.tx.pending = &pgx.Batch{}
	_, err := t.end(ctx, "ROLLBACK")
	return err
}

// rollbackTimeout bounds a rollback. After it, the connection is closed.
const rollbackTimeout = 5 * time.Second

// end ends the transaction. A connection whose transaction may still be open is closed.
func (t scopedTx) end(ctx context.Context, command string) (tag string, err error) {
	c, own := t.conn, t.conn.Conn.Conn()
	defer func() { c.tx = nil }()
	_ = c.endAhead(nil)
	switch {
	case !c.tx.hasBegun && c.tx.pending.Len() <= beginStatements:
		return command, nil
	case c.tx.hasBegun && own.PgConn().TxStatus() == 'I':
		return "ROLLBACK", nil // BEGIN has failed
	}
	b := c.batch(ctx)
	b.Queue(command)
	r, err := c.send(ctx, b, 1)
	if err == nil {
		got, failed := r.Exec()
		if err = closeResults(r, failed); err == nil {
			return got.String(), nil
		}
	}
	if own.PgConn().TxStatus() == 'E' { // a deferred statement has failed
		_, _ = own.Exec(ctx, "ROLLBACK")
	}
	if own.PgConn().TxStatus() != 'I' {
		_ = own.Close(ctx)
	}
	return "", err
}
