package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"modernc.org/sqlite"
)

// attempts is how often a transaction runs before a conflict with others is given up on.
const attempts = 4

// inTx is what the context of a transaction knows: its connection, on PostgreSQL.
type inTx struct{}

// Tx runs f in a transaction and commits when f returns nil. It runs f again when the database
// ended the transaction in favour of another one, so f must have no effects outside of it. The
// context given to f marks the transaction: a nested Tx, which would wait for ever for SQLite's
// only writer, is an error.
func (d *DB) Tx(ctx context.Context, f func(ctx context.Context, tx bun.Tx) error) error {
	if ctx.Value(inTx{}) != nil {
		return errors.New("a transaction inside a transaction")
	}
	var err error
	for range attempts {
		err = d.runInTx(ctx, f)
		if !isConflict(err) {
			return err
		}
	}
	return fmt.Errorf("after %d attempts: %w", attempts, err)
}

func (d *DB) runInTx(ctx context.Context, f func(ctx context.Context, tx bun.Tx) error) error {
	if d.Kind == SQLite {
		return d.RunInTx(context.WithValue(ctx, inTx{}, (*sql.Conn)(nil)), nil, f)
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.RunInTx(context.WithValue(ctx, inTx{}, conn.Conn), nil, f)
}

// isConflict reports whether running the same transaction again can succeed: serialization failure
// and deadlock on PostgreSQL
// (https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html), busy on
// SQLite (https://www.sqlite.org/rescode.html#busy).
func isConflict(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "40001" || e.Code == "40P01"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == 5
	}
	return false
}

// NoRowsAs returns missing if err is sql.ErrNoRows, and otherwise err wrapped with what was
// attempted.
func NoRowsAs(missing, err error, attempted string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

// Affected returns how many rows a statement changed: Affected(q.Exec(ctx)).
func Affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// IsUniqueViolation reports whether the error says that a row would be there twice.
func IsUniqueViolation(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == 2067 || e.Code() == 1555 // SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// IsRefused says that the database understood a statement and will never do it with these values:
// trying again is no use.
func IsRefused(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// data exception, integrity constraint violation
		return strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23")
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case 18, 19, 20: // SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH
			return true
		}
	}
	return false
}

// ForUpdate keeps everybody else from changing the rows that the query finds, until the transaction
// ends. SQLite has one writer, which is the transaction that asks.
func (d *DB) ForUpdate(q *bun.SelectQuery) *bun.SelectQuery {
	if d.Kind == Postgres {
		return q.For("UPDATE")
	}
	return q
}

// ForChange is ForUpdate of rows that stay what they are to others: whoever refers to one need not
// wait.
func (d *DB) ForChange(q *bun.SelectQuery) *bun.SelectQuery {
	if d.Kind == Postgres {
		return q.For("NO KEY UPDATE")
	}
	return q
}

// SkipLocked leaves rows that somebody is changing for the next time, where several can write at
// once.
func (d *DB) SkipLocked(q *bun.SelectQuery) *bun.SelectQuery {
	if d.Kind == Postgres {
		return q.For("UPDATE SKIP LOCKED")
	}
	return q
}
