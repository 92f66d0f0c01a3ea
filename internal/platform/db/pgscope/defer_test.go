package pgscope_test

import (
	"context"
	"io"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// deferredRow is a row of the table of TestDefer.
type deferredRow struct {
	bun.BaseModel `bun:"table:deferred_rows"`

	ID int
}

// TestDefer inserts rows without waiting: the next statement reads each of them, and an error ends
// the transaction, not the connection.
func TestDefer(t *testing.T) {
	t.Parallel()
	d, r := record(t)
	owner, ctx := db.AsOwner(t.Context()), db.AsSystem(t.Context())
	must.Value(d.ExecContext(owner,
		"CREATE TABLE deferred_rows (id INT PRIMARY KEY); GRANT ALL ON deferred_rows TO PUBLIC"))(t)
	insert := func(ctx context.Context, tx bun.Tx, ids ...int) {
		rows := make([]deferredRow, len(ids))
		for i, id := range ids {
			rows[i].ID = id
		}
		must.NoError(t, db.InsertRows(ctx, tx, db.Insert{}, rows))
	}
	count := func(ctx context.Context, conn bun.IDB) (n, backend int, err error) {
		err = conn.NewRaw("SELECT count(*), pg_backend_pid() FROM deferred_rows").Scan(ctx, &n, &backend)
		return n, backend, err
	}
	load := func(ctx context.Context, tx bun.Tx, id int) error {
		return d.Load(ctx, tx, "deferred_rows", []string{"id"}, 1, func(int) []any { return []any{id} })
	}
	must.NoError(t, d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { // prepares
		insert(ctx, tx, 1)
		return nil
	}))
	_, backend, err := count(ctx, d)
	must.NoError(t, err)
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, tx bun.Tx) error
		// rows are the rows that stay, trips the round trips, and fails whether the transaction
		// does, by an index.
		rows, trips int
		fails       bool
	}{
		{"with the commit", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 2)
			insert(ctx, tx, 3)
			return nil
		}, 3, 1, false},
		{"with the next query", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 2, 3)
			n, _, err := count(ctx, tx)
			if n != 3 {
				t.Errorf("the transaction sees %d rows", n)
			}
			insert(ctx, tx, 4)
			return err
		}, 4, 2, false},
		{"with the next statement without rows", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 2)
			_, err := tx.NewUpdate().Model((*deferredRow)(nil)).Set("id = id + 10").Where("id = 2").Exec(ctx)
			insert(ctx, tx, 2)
			return err
		}, 3, 2, false},
		{"before rows that are copied", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 2)
			if err := load(ctx, tx, 3); err != nil {
				return err
			}
			insert(ctx, tx, 4)
			return load(ctx, tx, 5)
		}, 5, 0, false},
		{"refused at the commit", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 2)
			insert(ctx, tx, 1)
			return nil
		}, 1, 0, true},
		{"refused at the next query", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 1)
			_, _, err := count(ctx, tx)
			return err
		}, 1, 0, true},
		{"refused before rows that are copied", func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 1)
			return load(ctx, tx, 2)
		}, 1, 0, true},
		{"refused after a query", func(ctx context.Context, tx bun.Tx) error {
			_, _, err := count(ctx, tx)
			insert(ctx, tx, 1)
			return err
		}, 1, 0, true},
	} {
		before := r.trips.Load()
		err := d.Tx(ctx, c.do)
		if n := r.trips.Load() - before; c.trips != 0 && n != int64(c.trips) {
			t.Errorf("%s: %d round trips, want %d", c.name, n, c.trips)
		}
		if db.IsUniqueViolation(err) != c.fails || err != nil && !c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		if n, same, err := count(ctx, d); n != c.rows || same != backend || err != nil {
			t.Errorf("%s: then %d rows, want %d; in the session %d, which was %d; %v", c.name, n, c.rows, same,
				backend, err)
		}
		must.Value(d.ExecContext(ctx, "DELETE FROM deferred_rows WHERE id > 1"))(t)
	}
	err = d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		insert(ctx, tx, 2)
		return io.ErrUnexpectedEOF
	})
	if n, same, problem := count(ctx, d); n != 1 || same != backend || err == nil || problem != nil {
		t.Errorf("after a rollback: %d rows, %v, %v", n, err, problem)
	}
}

// TestDefer_EndsWithAnUnsentStatement: a statement whose values cannot be encoded, or whose context has
// ended, takes the deferred ones with it, so the transaction cannot be committed without them.
func TestDefer_EndsWithAnUnsentStatement(t *testing.T) {
	t.Parallel()
	d, _ := record(t)
	must.Value(d.ExecContext(db.AsOwner(t.Context()),
		"CREATE TABLE deferred_rows (id INT PRIMARY KEY); GRANT ALL ON deferred_rows TO PUBLIC"))(t)
	ctx := db.AsSystem(t.Context())
	tooLarge := func(ctx context.Context, tx bun.Tx) error {
		p := d.Params()
		return tx.NewRaw("SELECT CAST(? AS INTEGER)", p.Of(1<<40)).Scan(p.Bind(ctx), new(int))
	}
	tooLate := func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.ExecContext(late{ctx, new(int)}, "SELECT 1")
		return err
	}
	// the first time, statements are prepared
	for i, run := range []func(context.Context, bun.Tx) error{tooLarge, tooLarge, tooLate} {
		err := d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			must.Value(tx.ExecContext(ctx, "SELECT 1"))(t)
			must.NoError(t, db.InsertRows(ctx, tx, db.Insert{}, []deferredRow{{ID: 1}}))
			if err := run(ctx, tx); err == nil {
				t.Errorf("statement %d is sent", i)
			}
			return nil
		})
		n, problem := d.NewRaw("SELECT FROM deferred_rows").Exec(ctx)
		must.NoError(t, problem)
		if rows := must.Value(n.RowsAffected())(t); (err == nil) != (rows == 1) {
			t.Errorf("after statement %d, committed with %d rows, %v", i, rows, err)
		}
		must.Value(d.ExecContext(ctx, "DELETE FROM deferred_rows"))(t)
	}
}
