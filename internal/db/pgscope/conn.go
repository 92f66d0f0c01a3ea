package pgscope

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
	if err == nil {
		_, err = own.Conn.Conn().Exec(ctx, keepPlans)
	}
	if err != nil {
		_ = own.Close()
		return nil, explain(ctx, err)
	}
	return own, nil
}

// startSession leaves the session with one prepared statement, that of the scope. A pooler may have given it to
// another client before.
func (c *Conn) startSession(ctx context.Context) error {
	c.prepared = map[string]*pgconn.StatementDescription{}
	err := c.Conn.Conn().DeallocateAll(ctx)
	if err == nil {
		_, err = c.Conn.Conn().Prepare(ctx, scopeStatement, setScope)
	}
	c.needsReset = err != nil
	return err
}

// keepPlans plans the statements of Bind once, for all values. PostgreSQL would otherwise weigh a
// plan for the values of each call.
const keepPlans = "SET plan_cache_mode = force_generic_plan"

// Conn is a pooled connection that tracks the scope of its session and changes it before the
// first statement, or transaction, of another scope. Consecutive statements of a tenant cost
// nothing. Every statement passes here, so none runs in a stale scope.
type Conn struct {
	*stdlib.Conn
	timeouts Timeouts
	current  Scope // the zero scope if the session's scope is unknown
	inTx     bool
	standby  bool // the server cannot be written to any more
	ahead    *ahead
	// prepared are the texts of the prepared statements. needsReset means that the session has not those, or that
	// one of them does not work any more, as after a migration.
	prepared   map[string]*pgconn.StatementDescription
	needsReset bool
}

var errOtherScope = errors.New("a statement of another scope within a transaction")

// mustEnter reports whether the session must change to the scope of a statement before it.
func (c *Conn) mustEnter(ctx context.Context, wanted Scope) (bool, error) {
	switch {
	case c.current.has(wanted):
		return false, nil
	case c.inTx:
		return true, errOtherScope
	case c.Conn.Conn().IsClosed():
		return true, driver.ErrBadConn
	case c.needsReset:
		return true, c.startSession(ctx)
	}
	return true, nil
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
	q, enters, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if enters {
		return c.queryInScope(ctx, Of(ctx), q)
	}
	return c.Conn.QueryContext(ctx, text, q.args)
}

// ExecContext implements driver.ExecerContext.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.exec(ctx, query, args)
	return result, c.explain(ctx, err)
}

func (c *Conn) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	q, enters, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if enters {
		return c.execInScope(ctx, Of(ctx), q)
	}
	return c.Conn.ExecContext(ctx, text, q.args)
}

// prepare returns a statement with its values, and whether the session must change to its scope with it.
func (c *Conn) prepare(
	ctx context.Context, text string, args []driver.NamedValue,
) (q query, enters bool, err error) {
	wanted := Of(ctx)
	if enters, err = c.mustEnter(ctx, wanted); err != nil {
		return q, false, err
	}
	q = query{text: text, args: args}
	values := Bound(ctx)
	for _, v := range values {
		q.args = append(q.args, driver.NamedValue{Ordinal: len(q.args) + 1, Value: v})
	}
	q.prepared = c.prepared[text]
	isNew := values != nil && q.prepared == nil
	if enters && (isNew || wanted.Role == Owner) { // it is prepared in its scope; a migration is many statements
		enters = false
		if err := c.enter(ctx, wanted); err != nil {
			return q, false, err
		}
	}
	if isNew {
		if q.prepared, err = c.Conn.Conn().Prepare(ctx, text, text); err == nil {
			c.prepared[text] = q.prepared
		} else if pgconn.SafeToRetry(err) && ctx.Err() == nil {
			err = driver.ErrBadConn
		}
	}
	return q, enters, err
}

// explain also notes that the server became a standby, so that the pool connects to the new primary, and that the
// session is that of another client.
func (c *Conn) explain(ctx context.Context, err error) error {
	switch Code(err) {
	case readOnlyTransaction:
		c.standby = true
	case duplicatePreparedStatement, invalidStatementName, featureNotSupported: // the last one for changed columns
		c.current, c.needsReset = Scope{}, true
	}
	return explain(ctx, err)
}

// IsValid implements driver.Validator.
func (c *Conn) IsValid() bool { return !c.standby }

// BeginTx implements driver.ConnBeginTx.
func (c *Conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if options != (driver.TxOptions{}) {
		return nil, errors.New("transactions have no options")
	}
	wanted := Of(ctx)
	enters, err := c.mustEnter(ctx, wanted)
	if err == nil && enters {
		err = c.beginInScope(ctx, wanted)
	} else if err == nil {
		_, err = c.Conn.ExecContext(ctx, begin, nil)
	}
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	c.inTx = true
	return scopedTx{ctx, c}, nil
}

// Prepare implements driver.Conn. A prepared statement of database/sql would outlive its scope.
func (c *Conn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *Conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return c.Prepare(query)
}

// scopedTx is a transaction. Once it has ended, its connection may change the scope.
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
	_, err := t.end(ctx, "ROLLBACK")
	return err
}

// rollbackTimeout bounds a rollback. After it, the connection is closed.
const rollbackTimeout = 5 * time.Second

// end ends the transaction. A connection whose transaction may still be open is closed.
func (t scopedTx) end(ctx context.Context, command string) (tag string, err error) {
	t.conn.inTx = false
	_ = t.conn.endAhead(nil)
	own := t.conn.Conn.Conn()
	got, err := own.Exec(ctx, command)
	if err != nil {
		_ = own.Close(ctx)
	}
	return got.String(), err
}
