package pgscope_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestTx_EndsWhenItHangs: in each scope, and its caller may try again.
func TestTx_EndsWhenItHangs(t *testing.T) {
	t.Parallel()
	d := impatient(t)
	for _, scoped := range []func(context.Context) context.Context{
		db.AsSystem, db.AsOwner, func(ctx context.Context) context.Context { return db.InWorkspace(ctx, "ws", "") },
	} {
		var limit string
		err := d.Tx(scoped(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			err := tx.NewRaw("SELECT current_setting('idle_in_transaction_session_timeout')").Scan(ctx, &limit)
			must.NoError(t, err)
			_, err = tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = '50ms'")
			must.NoError(t, err)
			time.Sleep(400 * time.Millisecond) // the server's clock
			_, err = tx.ExecContext(ctx, "SELECT 1")
			return err
		})
		if limit != "30s" || !errs.Is(err, errs.Unavailable) {
			t.Errorf("the limit is %q, and the error %v", limit, err)
		}
	}
}

// impatient is a migrated database whose requests do not wait for long.
func impatient(t *testing.T) *db.DB {
	t.Helper()
	where := dbtest.PostgresURL(t)
	dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where))
	d := must.Value(db.Server{URL: where, Pool: 2, StatementTimeout: 400 * time.Millisecond,
		LockTimeout: 100 * time.Millisecond}.Open())(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestStatement_TimesOut: statements of requests end after the timeout with a retryable error.
// Those of jobs, commands and migrations continue. Both share a connection.
func TestStatement_TimesOut(t *testing.T) {
	t.Parallel()
	d := impatient(t)
	conn := must.Value(d.Conn(t.Context()))(t)
	defer conn.Close()
	for _, c := range []struct {
		name string
		ctx  context.Context
		ends bool
	}{
		{"no scope", t.Context(), true},
		{"the owner", db.AsOwner(t.Context()), false},
		{"a workspace", db.InWorkspace(t.Context(), "ws", ""), true},
		{"the system", db.AsSystem(t.Context()), false},
		{"the resolver", db.AsResolver(t.Context()), true},
	} {
		_, err := conn.ExecContext(c.ctx, "SELECT pg_sleep(0.8)")
		if ended := errs.Is(err, errs.Unavailable); ended != c.ends || err != nil && !ended {
			t.Errorf("in the scope of %s: %v", c.name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := d.ExecContext(gone, "SELECT pg_sleep(0.8)"); err == nil || errs.Is(err, errs.Unavailable) {
		t.Errorf("a caller who has gone gets %v", err)
	}
}

// TestLock_TimesOut: a request waits for a lock for a limited time; a job waits without limit.
func TestLock_TimesOut(t *testing.T) {
	t.Parallel()
	d := impatient(t)
	held, freed := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	lock := func(ctx context.Context, tx bun.Tx) error {
		return errstest.Of(tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(1)"))
	}
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "CREATE TABLE locked (id INT); GRANT ALL ON locked TO PUBLIC"))(t)
	go func() {
		done <- d.Tx(db.AsSystem(context.Background()), func(ctx context.Context, tx bun.Tx) error {
			err := lock(ctx, tx)
			_, errTable := tx.ExecContext(ctx, "LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
			close(held)
			<-freed
			return errors.Join(err, errTable)
		})
	}()
	<-held
	prepares := func(ctx context.Context, tx bun.Tx) error {
		p := d.Params()
		return tx.NewRaw("SELECT count(*) FROM locked WHERE id = ?", p.Of(1)).Scan(p.Bind(ctx), new(int))
	}
	for name, waits := range map[string]func(ctx context.Context, tx bun.Tx) error{
		"locks": lock, "prepares": prepares,
	} {
		if err := d.Tx(t.Context(), waits); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "55P03") {
			t.Errorf("a request that waits as it %s gets %v", name, err)
		}
	}
	time.AfterFunc(600*time.Millisecond, func() { close(freed) })
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), lock)) // a job that waits
	must.NoError(t, <-done)
}

// late is a context that ends after database/sql has looked at it once.
type late struct {
	context.Context
	looks *int
}

// Done implements context.Context.
func (l late) Done() <-chan struct{} {
	if *l.looks++; *l.looks == 1 {
		return l.Context.Done()
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Err implements context.Context.
func (l late) Err() error {
	if *l.looks <= 1 {
		return l.Context.Err()
	}
	return context.DeadlineExceeded
}

// TestTx_WithoutBeginRunsNothing: after a first statement that was not sent, none runs outside of
// the transaction.
func TestTx_WithoutBeginRunsNothing(t *testing.T) {
	t.Parallel()
	d := must.Value(db.OpenPostgres(dbtest.PostgresURL(t), 1))(t)
	t.Cleanup(func() { d.Close() })
	dbtest.Migrated(t, d)
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "CREATE TABLE made (id INT); GRANT ALL ON made TO PUBLIC"))(t)
	err := d.Tx(db.InWorkspace(t.Context(), "ws_mine", ""), func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(late{ctx, new(int)}, "SELECT 1"); err == nil {
			t.Error("a statement of a context that has ended is sent")
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO made VALUES (1)"); err == nil {
			t.Error("a statement runs without BEGIN")
		}
		return nil
	})
	if err == nil {
		t.Error("the transaction is committed")
	}
}

// TestOpen_LeavesAStandby: a server that has become a standby refuses what writes; the connections
// to it are given up.
func TestOpen_LeavesAStandby(t *testing.T) {
	t.Parallel()
	d := must.Value(db.OpenPostgres(dbtest.PostgresURL(t), 1))(t)
	defer d.Close()
	owner := db.AsOwner(t.Context())
	must.Value(d.ExecContext(owner, "SET default_transaction_read_only = on"))(t)
	const write = "CREATE TABLE made (id int)"
	if _, err := d.ExecContext(owner, write); err == nil || !strings.Contains(err.Error(), "25006") {
		t.Fatalf("writing to a standby: %v", err)
	}
	must.Value(d.ExecContext(owner, write))(t) // then
}

// TestOpen_AcceptsSeveralHosts: the first does not answer, the second can be written to.
func TestOpen_AcceptsSeveralHosts(t *testing.T) {
	t.Parallel()
	u := must.Value(url.Parse(dbtest.PostgresURL(t)))(t)
	u.Host = "127.0.0.1:1," + u.Host
	query := u.Query()
	query.Set("target_session_attrs", "read-write")
	u.RawQuery = query.Encode()
	d := must.Value(db.OpenPostgres(u.String(), 1))(t)
	defer d.Close()
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "CREATE TABLE made (id int)"))(t)
}

// TestScope_NeedsNoSession: connections that share a session, as behind a pooler of transactions,
// see their own rows.
func TestScope_NeedsNoSession(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where))
	d := openBy(t, where, func(c driver.Connector) driver.Connector { return &oneSession{Connector: c} })
	mine, foreign := db.InWorkspace(t.Context(), "ws_mine", ""), db.InWorkspace(t.Context(), "ws_foreign", "")
	first, second := connect(t, d), connect(t, d)
	for range 3 {
		if got := workspaceOf(t, mine, first); got != "ws_mine" {
			t.Errorf("a statement of ws_mine runs as %s", got)
		}
		must.NoError(t, second.RunInTx(foreign, nil, func(ctx context.Context, tx bun.Tx) error {
			if got := workspaceOf(t, ctx, tx); got != "ws_foreign" {
				t.Errorf("a transaction of ws_foreign runs as %s", got)
			}
			return nil
		}))
		var workspace, role string
		must.NoError(t,
			second.NewRaw("SELECT coalesce(current_setting('linkforge.workspace', true), ''), current_user").
				Scan(db.AsOwner(t.Context()), &workspace, &role))
		if workspace != "" || strings.HasPrefix(role, "linkforge_") {
			t.Errorf("the session keeps %s of %s", workspace, role)
		}
	}
}

// TestPooler_OfTransactions: behind PgBouncer, concurrent statements and transactions see their own
// workspace, also prepared statements. One that does not follow prepared statements is refused.
func TestPooler_OfTransactions(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	straight := dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where))
	must.NoError(t, errors.Join(straight.CheckConnection(t.Context()), straight.CheckScopes(t.Context())))
	forgetful := must.Value(db.OpenPostgres(dbtest.PgBouncer(t, where, 0), 4))(t)
	t.Cleanup(func() { forgetful.Close() })
	if err := forgetful.CheckConnection(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "max_prepared_statements") {
		t.Errorf("a pooler that does not follow prepared statements: %v", err)
	}
	d := must.Value(db.OpenPostgres(dbtest.PgBouncer(t, where, 100), 6))(t)
	t.Cleanup(func() { d.Close() })
	must.NoError(t, errors.Join(d.CheckConnection(t.Context()), d.CheckScopes(t.Context())))
	var visits sync.WaitGroup
	for i := range 6 {
		visits.Go(func() {
			own := fmt.Sprint("ws_", i)
			ctx := db.InWorkspace(t.Context(), own, "")
			for n := range 60 {
				err := d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
					var workspaces [2]string
					for i := range workspaces {
						p := d.Params()
						query := fmt.Sprintf("SELECT current_setting('linkforge.workspace') WHERE ? > %d", n%12)
						if err := tx.NewRaw(query, p.Of(100)).Scan(p.Bind(ctx), &workspaces[i]); err != nil {
							return err
						}
					}
					if workspaces != [2]string{own, own} {
						t.Errorf("%s sees %s", own, workspaces)
					}
					return nil
				})
				var workspace string
				err = errors.Join(err, d.NewRaw("SELECT current_setting('linkforge.workspace')").Scan(ctx, &workspace))
				if err != nil || workspace != own {
					t.Errorf("%s sees %s, %v", own, workspace, err)
				}
			}
		})
	}
	visits.Wait()
}

// TestError_ExplainsLostStatements: if a session loses its prepared statements, the log states the
// remedy, and the connection remains usable.
func TestError_ExplainsLostStatements(t *testing.T) {
	t.Parallel()
	conn := connect(t, dbtest.Postgres(t))
	mine, foreign := db.InWorkspace(t.Context(), "ws_mine", ""), db.InWorkspace(t.Context(), "ws_foreign", "")
	workspaceOf(t, mine, conn)
	must.Value(conn.ExecContext(mine, "DEALLOCATE ALL"))(t)
	if _, err := conn.ExecContext(foreign, "SELECT 1"); err == nil ||
		!strings.Contains(err.Error(), "max_prepared_statements") {
		t.Errorf("a deallocated statement: %v", err)
	}
	if got := workspaceOf(t, foreign, conn); got != "ws_foreign" {
		t.Errorf("then a statement of ws_foreign runs as %s", got)
	}
}

// TestSession_StartsWithoutPreparedStatements: a pooler that pools sessions may give one on with
// what another client has prepared in it, under the same names.
func TestSession_StartsWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	where, mine := dbtest.PostgresURL(t), db.InWorkspace(t.Context(), "ws_mine", "")
	first := connect(t, dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where)))
	workspaceOf(t, mine, first)
	var names []string
	if err := first.NewRaw("SELECT name FROM pg_prepared_statements").Scan(mine, &names); err != nil ||
		len(names) == 0 {
		t.Fatalf("prepared are %q, %v, want some", names, err)
	}
	d := openBy(t, where, func(c driver.Connector) driver.Connector { return usedSession{c, names} })
	if got := workspaceOf(t, mine, connect(t, d)); got != "ws_mine" {
		t.Errorf("a statement of ws_mine runs as %s", got)
	}
}

func connect(t *testing.T, d *db.DB) bun.Conn {
	t.Helper()
	conn := must.Value(d.Conn(t.Context()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// workspaceOf is the workspace whose rows a statement sees.
func workspaceOf(t *testing.T, ctx context.Context, conn bun.IDB) (workspaceID string) {
	t.Helper()
	must.NoError(t, conn.NewRaw("SELECT current_setting('linkforge.workspace')").Scan(ctx, &workspaceID))
	return workspaceID
}

// oneSession simulates a pooler of transactions: two connections share one session.
type oneSession struct {
	driver.Connector
	mu   sync.Mutex
	conn driver.Conn
}

// Connect implements driver.Connector.
func (c *oneSession) Connect(ctx context.Context) (_ driver.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		c.conn, err = c.Connector.Connect(ctx)
	}
	return c.conn, err
}

// usedSession makes connections whose sessions another client has prepared statements in.
type usedSession struct {
	driver.Connector
	statements []string
}

// Connect implements driver.Connector.
func (c usedSession) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range c.statements {
		if _, err := conn.(*stdlib.Conn).Conn().
			Exec(ctx, "PREPARE "+pgx.Identifier{name}.Sanitize()+" AS SELECT 1"); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

// openBy opens a database whose connections another connector makes from that of its URL.
func openBy(t *testing.T, databaseURL string, by func(driver.Connector) driver.Connector) *db.DB {
	t.Helper()
	config := must.Value(pgscope.ParseConfig(databaseURL))(t)
	conns := sql.OpenDB(pgscope.Connector{Connector: by(stdlib.GetConnector(*config))})
	conns.SetMaxOpenConns(2)
	d := &db.DB{DB: bun.NewDB(conns, pgdialect.New()), Kind: db.Postgres}
	t.Cleanup(func() { d.Close() })
	return d
}
