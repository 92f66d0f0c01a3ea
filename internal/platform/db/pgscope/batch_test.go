package pgscope_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// recorder is a proxy of PostgreSQL that counts round trips: how often the client sends something
// after the server has answered.
type recorder struct {
	trips     atomic.Int64
	isWaiting atomic.Bool // for an answer
}

// relay copies what one side of a connection sends to the other.
func relay(to, from net.Conn, report func()) {
	defer to.Close()
	text := make([]byte, 64<<10)
	for {
		n, err := from.Read(text)
		if err != nil {
			return
		}
		report()
		if _, err := to.Write(text[:n]); err != nil {
			return
		}
	}
}

// record starts a recorder, and returns a database with one connection through it.
func record(t *testing.T) (*db.DB, *recorder) {
	t.Helper()
	dbtest.Migrated(t, dbtest.Postgres(t)) // creates the roles
	u := must.Value(url.Parse(dbtest.PostgresURL(t)))(t)
	listener := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	r, address := &recorder{}, u.Host
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				client.Close()
				return
			}
			go relay(client, server, func() { r.isWaiting.Store(false) })
			go relay(server, client, func() {
				if r.isWaiting.CompareAndSwap(false, true) {
					r.trips.Add(1)
				}
			})
		}
	}()
	u.Host = listener.Addr().String()
	d := must.Value(db.OpenPostgres(u.String(), 1))(t)
	t.Cleanup(func() { d.Close() })
	return d, r
}

// TestScope_TravelsWithStatements changes the scope with each statement and transaction.
func TestScope_TravelsWithStatements(t *testing.T) {
	t.Parallel()
	d, r := record(t)
	spaces := []context.Context{db.InWorkspace(t.Context(), "ws_a", ""), db.InWorkspace(t.Context(), "ws_b", "")}
	const query = "SELECT current_setting('linkforge.workspace')"
	read := func(conn bun.IDB, i int) {
		var workspace string
		ctx := spaces[i%2]
		if i%4 > 1 { // prepared
			p := d.Params()
			p.Of("text")
			err := conn.NewRaw(query+" WHERE $1::TEXT <> ''").Scan(p.Bind(ctx), &workspace)
			if err != nil {
				t.Error(err)
			}
		} else if err := conn.NewRaw(query).Scan(ctx, &workspace); err != nil {
			t.Error(err)
		}
		if want := []string{"ws_a", "ws_b"}[i%2]; workspace != want {
			t.Errorf("a statement of %s runs in %q", want, workspace)
		}
	}
	for i := range 4 { // connects, and prepares
		read(d, i)
	}
	for what, c := range map[string]struct {
		do   func(i int)
		want int64
	}{
		"a statement": {func(i int) { read(d, i) }, 1},
		"a statement without rows": {func(i int) {
			if _, err := d.ExecContext(spaces[i%2], "SELECT 1"); err != nil {
				t.Error(err)
			}
		}, 1},
		"a transaction of a statement": {func(i int) {
			err := d.Tx(spaces[i%2], func(_ context.Context, tx bun.Tx) error {
				read(tx, i)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}, 2},
	} {
		before := r.trips.Load()
		for i := range 8 {
			c.do(i)
		}
		if n := r.trips.Load() - before; n != 8*c.want {
			t.Errorf("8 times %s: %d round trips, want %d", what, n, 8*c.want)
		}
	}
}

// TestScope_IsLeftByFailures lets the first statement of a scope fail: the next one runs in its own
// scope.
func TestScope_IsLeftByFailures(t *testing.T) {
	t.Parallel()
	d, _ := record(t)
	for i := range 6 {
		own := fmt.Sprint("ws_", i)
		ctx := db.InWorkspace(t.Context(), own, "")
		_, err := d.ExecContext(ctx, "SELECT 1 / 0")
		if i%2 == 1 {
			err = d.Tx(ctx, func(context.Context, bun.Tx) error { return io.ErrUnexpectedEOF })
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		}
		if err == nil {
			t.Error("a division by zero succeeds")
		}
		var workspace, role string
		err = d.NewRaw("SELECT current_setting('linkforge.workspace'), current_user").Scan(ctx, &workspace, &role)
		if err != nil || workspace != own || role != "linkforge_tenant" {
			t.Errorf("then %s is in %q as %s, %v", own, workspace, role, err)
		}
		err = d.NewRaw("SELECT current_user").Scan(db.AsSystem(t.Context()), &role)
		if err != nil || role != "linkforge_system" {
			t.Errorf("the system runs as %s, %v", role, err)
		}
	}
}

// TestScope_FailureRefusesNoRows: without its role a statement does not run, and nothing is said of
// its values.
func TestScope_FailureRefusesNoRows(t *testing.T) {
	t.Parallel()
	ctx := pgscope.WithScope(t.Context(), pgscope.Scope{Role: "linkforge_missing"})
	_, err := dbtest.Postgres(t).ExecContext(ctx, "SELECT 1")
	if !errors.Is(err, pgscope.ErrScope) || db.IsRefused(err) {
		t.Errorf("%v; refused: %t", err, db.IsRefused(err))
	}
}

// TestStatement_IsPreparedAgainAfterAMigration changes the type of a column that a prepared
// statement returns.
func TestStatement_IsPreparedAgainAfterAMigration(t *testing.T) {
	t.Parallel()
	d, _ := record(t)
	ctx := db.AsOwner(t.Context())
	run := func(statement string) {
		t.Helper()
		must.Value(d.ExecContext(ctx, statement))(t)
	}
	var value string
	read := func() error {
		p := d.Params()
		return d.NewRaw("SELECT value FROM altered WHERE id = ?", p.Of(1)).Scan(p.Bind(ctx), &value)
	}
	run("CREATE TABLE altered (id INT, value INT); INSERT INTO altered VALUES (1, 2)")
	must.NoError(t, read())
	run("ALTER TABLE altered ALTER COLUMN value TYPE TEXT")
	if err := read(); err == nil {
		t.Log("the statement works at once")
	}
	if err := read(); err != nil || value != "2" {
		t.Errorf("%q, %v", value, err)
	}
}
