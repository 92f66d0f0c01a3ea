package pgscope_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// on is a database at another address.
func on(t *testing.T, where, address string) *db.DB {
	t.Helper()
	u := must.Value(url.Parse(where))(t)
	u.Host = address
	d := must.Value(db.OpenPostgres(u.String(), 2))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestTx_EndsOnAResetConnection: a transaction that begins by statements that are sent ahead, or by
// a copy.
func TestTx_EndsOnAResetConnection(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where))
	for name, begin := range map[string]func(ctx context.Context, d *db.DB, tx bun.Tx) error{
		"ahead": func(ctx context.Context, d *db.DB, tx bun.Tx) error {
			var lookups []db.Lookup
			for n := range 2 {
				p := d.Params()
				lookups = append(lookups,
					db.Lookup{Query: tx.NewRaw("SELECT CAST(? AS INTEGER)", p.Of(n)), Params: p, Dest: new(int)})
			}
			return d.Pipe(ctx, tx, lookups...)
		},
		"copy": func(ctx context.Context, d *db.DB, tx bun.Tx) error {
			return d.Load(ctx, tx, "counters", []string{"name", "next"}, 0, func(int) []any { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := faulttest.NewProxy(t, must.Value(url.Parse(where))(t).Host)
			d := on(t, where, w.Address)
			ctx, cancel := context.WithTimeout(db.AsSystem(t.Context()), 20*time.Second)
			defer cancel()
			run := func(ctx context.Context, tx bun.Tx) error { return begin(ctx, d, tx) }
			for range 3 { // the session is not checked again within a second
				must.NoError(t, d.Tx(ctx, run))
			}
			w.Set(faulttest.Refuse)
			time.Sleep(5 * time.Millisecond) // until the reset has arrived
			if err := d.Tx(ctx, run); !errs.Is(err, errs.Unavailable) || ctx.Err() != nil {
				t.Errorf("%v, %v", err, ctx.Err())
			}
		})
	}
}

// TestError_OutageIsUnavailable: errors are retryable if no server listens, a connection
// breaks, or the server ends it. Errors of the configuration are not.
func TestError_OutageIsUnavailable(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	u, err := url.Parse(where)
	must.NoError(t, err)
	expect := func(what string, err error, want bool) {
		t.Helper()
		if err == nil || errs.Is(err, errs.Unavailable) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	owner := db.AsOwner(t.Context())
	write := func(d *db.DB, meanwhile func(tx bun.Tx)) error {
		return d.Tx(owner, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
				t.Errorf("before: %v", err)
			}
			meanwhile(tx)
			return nil
		})
	}

	expect("no server", errstest.Of(on(t, where, "127.0.0.1:1").ExecContext(owner, "SELECT 1")), true)

	w := faulttest.NewProxy(t, u.Host)
	broken := on(t, where, w.Address)
	expect("a connection breaks before the commit", write(broken, func(bun.Tx) { w.Set(faulttest.Refuse) }), true)
	expect("then", errstest.Of(broken.ExecContext(owner, "SELECT 1")), true)

	w = faulttest.NewProxy(t, u.Host)
	broken = on(t, where, w.Address)
	expect("a connection breaks before a statement", broken.Tx(owner, func(ctx context.Context, tx bun.Tx) error {
		w.Set(faulttest.Refuse)
		_, err := tx.ExecContext(ctx, "SELECT 1")
		return err
	}), true)

	d := dbtest.Open(t, db.Postgres, where)
	expect("the server ends a connection", write(d, func(tx bun.Tx) {
		var session int
		if err := tx.NewRaw("SELECT pg_backend_pid()").Scan(owner, &session); err != nil {
			t.Error(err)
		}
		if _, err := dbtest.Open(t, db.Postgres, where).ExecContext(owner, "SELECT pg_terminate_backend(?, 5000)",
			session); err != nil {
			t.Error(err)
		}
	}), true)
	must.Value(d.ExecContext(owner, "SELECT 1"))(t) // then, on another connection

	u.Path = "/nosuchdatabase"
	expect("there is no such database", errstest.Of(on(t, u.String(), u.Host).ExecContext(owner, "SELECT 1")), true)
	expect("a statement that is wrong", errstest.Of(d.ExecContext(owner, "SELECT nosuchcolumn")), false)
	gone, cancel := context.WithCancel(owner)
	cancel()
	expect("a caller who has gone", errstest.Of(on(t, where, "127.0.0.1:1").ExecContext(gone, "SELECT 1")), false)
}

// TestStatement_ContinuesAfterAReset: a statement outside of a transaction that cannot be sent on a
// connection that was reset runs on another one.
func TestStatement_ContinuesAfterAReset(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	dbtest.Migrated(t, dbtest.Open(t, db.Postgres, where))
	ctx := db.InWorkspace(t.Context(), "ws_mine", "")
	for name, run := range map[string]func(d *db.DB, n int) error{
		"text": func(d *db.DB, _ int) error { return errstest.Of(d.ExecContext(ctx, "SELECT 1")) },
		"prepared": func(d *db.DB, _ int) error {
			p := d.Params()
			return d.NewRaw("SELECT CAST(? AS INTEGER)", p.Of(1)).Scan(p.Bind(ctx), new(int))
		},
		"to be prepared": func(d *db.DB, n int) error {
			p := d.Params()
			return d.NewRaw(fmt.Sprintf("SELECT CAST(? AS INTEGER) + %d", n), p.Of(1)).Scan(p.Bind(ctx), new(int))
		},
	} {
		w := faulttest.NewProxy(t, must.Value(url.Parse(where))(t).Host)
		d := on(t, where, w.Address)
		for n := range 12 {
			if err := run(d, n); err != nil {
				t.Errorf("%s, statement %d: %v", name, n, err)
			}
			if n%4 != 3 { // the session is not checked again within a second
				continue
			}
			w.Set(faulttest.Refuse)
			time.Sleep(5 * time.Millisecond) // until the reset has arrived
			w.Set(faulttest.Pass)
		}
	}
}
