package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/admission"
)

// attempts is how often Tx runs a transaction that conflicts with others.
const attempts = 4

// inTx is the context key of a transaction's connection on PostgreSQL.
type inTx struct{}

// OldestTransaction is the number of the oldest open transaction, in the SQL of PostgreSQL. All
// earlier ones have ended: their rows do not change, and no row can be added between them.
const OldestTransaction = "pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT"

// Tx runs f in a transaction and commits if f returns nil. It runs f again if the database aborted
// the transaction in favour of another, so f must have no other effects. The context given to f
// marks the transaction: a nested Tx, which would deadlock on SQLite, is an error.
func (d *DB) Tx(ctx context.Context, f func(ctx context.Context, tx bun.Tx) error) error {
	if ctx.Value(inTx{}) != nil {
		return errors.New("a transaction inside a transaction")
	}
	ctx, leave, err := admission.EnterTx(ctx, d.turns.Writes)
	if err != nil {
		return err
	}
	defer leave()
	for range attempts {
		err = d.runInTx(ctx, f)
		if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // database/sql has rolled it back
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		if !isConflict(err) {
			return err
		}
	}
	return fmt.Errorf("after %d attempts: %w", attempts, err)
}

// snapshotKey is the context key of the transaction of AtOneInstant.
type snapshotKey struct{}

// AtOneInstant runs f in a transaction that only reads, on a replica where f may lag. The queries of
// Reading with f's context see the database as it is at one instant. f runs them one at a time, and
// waits for no other connection, because it holds one.
func (d *DB) AtOneInstant(ctx context.Context, f func(ctx context.Context) error) error {
	within, leave, err := admission.EnterTx(ctx, d.turns.Reads)
	if err != nil {
		return err
	}
	defer leave()
	options := &sql.TxOptions{ReadOnly: true}
	if d.Kind == Postgres { // on SQLite each transaction sees one instant
		options.Isolation = sql.LevelRepeatableRead
	}
	pool := d.DB.DB
	if d.turns.Route != nil {
		if other, ok := d.turns.Route.ResolveConn(ctx, &bun.SelectQuery{}).(*sql.DB); ok {
			pool = other
		}
	}
	tx, err := pool.BeginTx(within, options)
	if err != nil {
		return fmt.Errorf("beginning a snapshot: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it has written nothing
	return f(context.WithValue(within, snapshotKey{}, tx))
}

// Reading returns a query. In AtOneInstant it reads at that instant, otherwise at its own.
func (d *DB) Reading(ctx context.Context) *bun.SelectQuery {
	if tx, ok := ctx.Value(snapshotKey{}).(*sql.Tx); ok {
		return d.NewSelect().Conn(tx)
	}
	return d.NewSelect()
}

func (d *DB) runInTx(ctx context.Context, f func(ctx context.Context, tx bun.Tx) error) error {
	if d.Kind == SQLite {
		return d.runInGroup(context.WithValue(ctx, inTx{}, (*sql.Conn)(nil)), f)
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.RunInTx(context.WithValue(ctx, inTx{}, conn.Conn), nil, f)
}

// ForUpdate locks the rows of a query until the transaction ends. SQLite needs no lock: it has one
// writer.
func (d *DB) ForUpdate(q *bun.SelectQuery) *bun.SelectQuery { return d.lock(q, "UPDATE") }

// ForChange is ForUpdate without blocking inserts of rows that refer to the locked ones.
func (d *DB) ForChange(q *bun.SelectQuery) *bun.SelectQuery { return d.lock(q, "NO KEY UPDATE") }

// Recheck requires a value of a column of rows that other conditions find. SQLite, which has no
// statistics, would take an index that begins with the column, and read all rows that it has of a
// workspace; a unary plus keeps it from that
// (https://www.sqlite.org/optoverview.html#disqualifying_where_clause_terms_using_unary).
func (d *DB) Recheck(q *bun.SelectQuery, column string, value any) *bun.SelectQuery {
	if d.Kind == SQLite {
		return q.Where("+? = ?", bun.Ident(column), value)
	}
	return q.Where("? = ?", bun.Ident(column), value)
}

// SkipLocked is ForChange that leaves out rows that others have locked.
func (d *DB) SkipLocked(q *bun.SelectQuery) *bun.SelectQuery {
	return d.lock(q, "NO KEY UPDATE SKIP LOCKED")
}

// ForKeyShare locks rows that the transaction will refer to against deletion and changes of their
// keys.
func (d *DB) ForKeyShare(q *bun.SelectQuery) *bun.SelectQuery { return d.lock(q, "KEY SHARE") }

// ForReference is ForKeyShare that leaves out rows that others have locked by ForUpdate.
func (d *DB) ForReference(q *bun.SelectQuery) *bun.SelectQuery {
	return d.lock(q, "KEY SHARE SKIP LOCKED")
}

func (d *DB) lock(q *bun.SelectQuery, mode string) *bun.SelectQuery {
	if d.Kind == Postgres {
		return q.For(mode)
	}
	return q
}
