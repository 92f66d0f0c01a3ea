package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// The roles that statements run as on PostgreSQL. They own nothing and bypass nothing; the
// migrations say what each may see and change.
const (
	tenantRole   = "linkforge_tenant"
	resolverRole = "linkforge_resolver"
	creatorRole  = "linkforge_creator"
	systemRole   = "linkforge_system"
	ownerRole    = "none" // the role that has connected
)

// scope bounds the visible rows of a statement: one workspace, or a list for the role of creators, and the
// memberships of one account. The zero scope sees no tenant's rows. Statements of a brief scope have ListTimeout.
type scope struct {
	role, workspace, account string
	brief, shortLockTimeout  bool
}

// has reports whether statements of another scope can run in this one: an equal one, or that of the
// account whose membership was entered.
func (s scope) has(other scope) bool {
	if other.account != "" && other.workspace == "" {
		other.workspace = s.workspace
	}
	return s == other
}

type scopeKey struct{}

// InWorkspace returns a context whose statements see one workspace, and what AsAccount shows to the
// account, which is a member or empty. Only the proof of a membership calls it.
func InWorkspace(ctx context.Context, workspaceID, accountID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: tenantRole, workspace: workspaceID, account: accountID})
}

// AsAccount returns a context whose statements see an account's memberships and their workspaces.
func AsAccount(ctx context.Context, accountID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: tenantRole, account: accountID})
}

// AsResolver returns a context whose statements look up the workspace of an object: they see the
// links, slugs, domains and keys of all workspaces and change one column.
func AsResolver(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: resolverRole})
}

// AsCreator returns a context whose statements create links in several workspaces: they see what that reads there,
// and insert what it writes. Only the proofs of memberships of all these workspaces permit it.
func AsCreator(ctx context.Context, workspaceIDs ...string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: creatorRole, workspace: strings.Join(workspaceIDs, ",")})
}

// AsSystem returns a context whose statements see all workspaces: for jobs, the operator's
// commands, and moves between workspaces.
func AsSystem(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: systemRole})
}

// AsOwner returns a context whose statements run as the role that has connected, which owns the
// tables: for migrations.
func AsOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{role: ownerRole})
}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(scope); ok {
		return s
	}
	return scope{role: tenantRole}
}

// Briefly returns a context in whose scope statements end after ListTimeout, with Unavailable: for
// lists, whose filter may find little among many rows. Call it after the scope is entered.
func (d *DB) Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.Kind == SQLite && d.ListTimeout > 0 {
		return context.WithTimeoutCause(ctx, d.ListTimeout, errTooLong())
	}
	s := scopeOf(ctx)
	s.brief = true
	return context.WithValue(ctx, scopeKey{}, s), func() {}
}

// shortLockTimeout is that of WithShortLockTimeout, in milliseconds.
const shortLockTimeout = "100"

// WithShortLockTimeout returns a context in whose scope statements wait at most 100 ms for a lock, and fail with an
// error of IsLockTimeout: for those that several callers share. Call it after the scope is entered.
func WithShortLockTimeout(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	s.shortLockTimeout = true
	return context.WithValue(ctx, scopeKey{}, s)
}

// patience holds a scope's timeouts as the server reads them.
type patience struct{ statement, lock, list string }

// forEver is for the scopes of the system and the owner.
var forEver = patience{"0", "0", "0"}

func patienceOf(s Server) patience {
	return patience{milliseconds(s.StatementTimeout), milliseconds(s.LockTimeout), milliseconds(s.ListTimeout)}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// scopedConnector makes connections that run each statement in the scope of its context.
type scopedConnector struct {
	driver.Connector
	patience patience
}

// Connect implements driver.Connector.
func (c scopedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	own := &scopedConn{Conn: conn.(*stdlib.Conn), patience: c.patience}
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
func (c *scopedConn) startSession(ctx context.Context) error {
	c.prepared = map[string]*pgconn.StatementDescription{}
	err := c.Conn.Conn().DeallocateAll(ctx)
	if err == nil {
		_, err = c.Conn.Conn().Prepare(ctx, scopeStatement, setScope)
	}
	c.needsReset = err != nil
	return err
}

// keepPlans plans the statements of bind once, for all values. PostgreSQL would otherwise weigh a
// plan for the values of each call.
const keepPlans = "SET plan_cache_mode = force_generic_plan"

// scopedConn is a pooled connection that tracks the scope of its session and changes it before the
// first statement, or transaction, of another scope. Consecutive statements of a tenant cost
// nothing. Every statement passes here, so none runs in a stale scope.
type scopedConn struct {
	*stdlib.Conn
	patience patience
	current  scope // the zero scope if the session's scope is unknown
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
func (c *scopedConn) mustEnter(ctx context.Context, wanted scope) (bool, error) {
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
func (c *scopedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.query(ctx, query, args)
	return rows, c.explain(ctx, err)
}

func (c *scopedConn) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.ahead != nil {
		return c.queryAhead(text)
	}
	q, enters, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if enters {
		return c.queryInScope(ctx, scopeOf(ctx), q)
	}
	return c.Conn.QueryContext(ctx, text, q.args)
}

// ExecContext implements driver.ExecerContext.
func (c *scopedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.exec(ctx, query, args)
	return result, c.explain(ctx, err)
}

func (c *scopedConn) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	q, enters, err := c.prepare(ctx, text, args)
	if err != nil {
		return nil, err
	}
	if enters {
		return c.execInScope(ctx, scopeOf(ctx), q)
	}
	return c.Conn.ExecContext(ctx, text, q.args)
}

// prepare returns a statement with its values, and whether the session must change to its scope with it.
func (c *scopedConn) prepare(
	ctx context.Context, text string, args []driver.NamedValue,
) (q query, enters bool, err error) {
	wanted := scopeOf(ctx)
	if enters, err = c.mustEnter(ctx, wanted); err != nil {
		return q, false, err
	}
	q = query{text: text, args: args}
	values, _ := ctx.Value(bound{}).([]any)
	for _, v := range values {
		q.args = append(q.args, driver.NamedValue{Ordinal: len(q.args) + 1, Value: v})
	}
	q.prepared = c.prepared[text]
	isNew := values != nil && q.prepared == nil
	if enters && (isNew || wanted.role == ownerRole) { // it is prepared in its scope; a migration is many statements
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
func (c *scopedConn) explain(ctx context.Context, err error) error {
	switch pgCode(err) {
	case readOnlyTransaction:
		c.standby = true
	case duplicatePreparedStatement, invalidStatementName, featureNotSupported: // the last one for changed columns
		c.current, c.needsReset = scope{}, true
	}
	return explain(ctx, err)
}

// IsValid implements driver.Validator.
func (c *scopedConn) IsValid() bool { return !c.standby }

// BeginTx implements driver.ConnBeginTx.
func (c *scopedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if options != (driver.TxOptions{}) {
		return nil, errors.New("transactions have no options")
	}
	wanted := scopeOf(ctx)
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
func (c *scopedConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *scopedConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return c.Prepare(query)
}

// scopedTx is a transaction. Once it has ended, its connection may change the scope.
type scopedTx struct {
	ctx  context.Context
	conn *scopedConn
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

// CheckScopes returns an error unless row-level security is in force: no role owns tables or
// bypasses policies, and policies apply to owners too. A server must not start otherwise.
func (d *DB) CheckScopes(ctx context.Context) error {
	if d.Kind != Postgres {
		return nil
	}
	for _, ctx := range []context.Context{InWorkspace(ctx, "", ""), AsCreator(ctx), AsResolver(ctx), AsSystem(ctx)} {
		var role string
		var above, owns bool
		err := d.NewRaw(`SELECT current_user, r.rolsuper OR r.rolbypassrls,
			EXISTS (SELECT FROM pg_class c WHERE c.relowner = r.oid AND c.relnamespace = current_schema()::regnamespace)
			FROM pg_roles r WHERE r.rolname = current_user`).Scan(ctx, &role, &above, &owns)
		if err != nil {
			return fmt.Errorf("the roles of row-level security: %w", err)
		}
		if above || owns || role != scopeOf(ctx).role {
			return fmt.Errorf("the database role %s owns tables or is above row-level security: it must not", role)
		}
	}
	var open []string
	err := d.NewRaw(`SELECT DISTINCT c.relname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND NOT (c.relrowsecurity
			AND c.relforcerowsecurity)`).Scan(ctx, &open)
	if err != nil {
		return fmt.Errorf("selecting tables without row-level security: %w", err)
	}
	if len(open) > 0 {
		return fmt.Errorf("row-level security is not forced on %s", strings.Join(open, ", "))
	}
	return nil
}

var errShared = errors.New("connections to the database do not keep their sessions, as behind a pooler of " +
	"transactions or statements: " +
	"a workspace's statements could run as another's; let the pooler pool sessions, or connect past it")

// checkSessions returns an error unless each connection keeps a session of its own, which a scope
// requires. A pooler of transactions gives both connections one session, or changes them.
func (d *DB) checkSessions(ctx context.Context) error {
	if d.Stats().MaxOpenConnections == 1 {
		return nil
	}
	first, err := d.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer first.Close()
	second, err := d.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer second.Close()
	var own, others int64
	for i := range 12 { // a busy pooler may seem to keep them for a while
		conn, session := first, &own
		if i%4 == 1 || i%4 == 2 {
			conn, session = second, &others
		}
		var is int64
		if err := conn.NewRaw("SELECT pg_backend_pid()").Scan(ctx, &is); err != nil {
			return fmt.Errorf("checking for a connection pooler: %w", err)
		}
		if *session != 0 && *session != is {
			return errShared
		}
		if *session = is; own == others {
			return errShared
		}
	}
	return nil
}
