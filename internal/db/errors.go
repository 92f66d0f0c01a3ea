package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/linkforge/linkforge/internal/errs"
)

// The codes of errors that this package distinguishes
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	uniqueViolation      = "23505"
	readOnlyTransaction  = "25006"

	duplicatePreparedStatement = "42P05"
	invalidStatementName       = "26000"
	featureNotSupported        = "0A000"
)

// pgCode returns the SQLSTATE of an error of PostgreSQL's, or an empty text.
func pgCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// sqliteCode returns the extended result code of an error of SQLite's, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// explain turns PostgreSQL's timeouts and an unavailable server into Unavailable, unless the caller
// is gone.
func explain(ctx context.Context, err error) error {
	switch code := pgCode(err); {
	case err == nil || ctx.Err() != nil:
		return err
	case code == lockNotAvailable || code == queryCanceled:
		return errTooLong().Because(err)
	case isUnavailable(err):
		return errs.New(errs.Unavailable, "The database is unavailable. Try again in a moment.").Because(err)
	case code == duplicatePreparedStatement || code == invalidStatementName:
		return fmt.Errorf("%w: %w", errShared, err) // a pooler gave the session to another connection
	}
	return err
}

func errTooLong() *errs.Error {
	return errs.New(errs.Unavailable,
		"The database took too long. Try again in a moment, request fewer items, or use a narrower filter.")
}

// isUnavailable reports whether there is no server, or one that accepts no statements for now.
func isUnavailable(err error) bool {
	if errs.IsOutage(err) || errors.Is(err, pgconn.ErrConnClosed) {
		return true
	}
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// isConflict reports whether a retry of the transaction can succeed
// (https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html,
// https://www.sqlite.org/rescode.html#busy).
func isConflict(err error) bool {
	code := pgCode(err)
	return code == serializationFailure || code == deadlockDetected || sqliteCode(err)&0xff == 5 ||
		errors.Is(err, errGroupAborted)
}

// IsUniqueViolation reports whether a row violates a unique index.
func IsUniqueViolation(err error) bool {
	code := sqliteCode(err)
	return pgCode(err) == uniqueViolation || code == 2067 || code == 1555 // SQLITE_CONSTRAINT_UNIQUE and _PRIMARYKEY
}

// IsRefused reports whether the values of a statement can never be stored: a retry is useless.
func IsRefused(err error) bool {
	if code := pgCode(err); code != "" {
		return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") // data exception, integrity constraint
	}
	code := sqliteCode(err) & 0xff
	return code == 18 || code == 19 || code == 20 // SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH
}

// IsLockTimeout reports whether PostgreSQL has cancelled a statement because it waited too long for a lock.
func IsLockTimeout(err error) bool { return pgCode(err) == lockNotAvailable }

// NoRowsAs returns missing if err is sql.ErrNoRows, and otherwise err wrapped with the attempted
// action.
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

// InBatches calls f, which handles a batch of rows and returns how many, until there are fewer than size. It
// returns how many rows all calls have handled.
func InBatches(size int64, f func() (n int64, err error)) (total int64, err error) {
	for {
		n, err := f()
		if total += n; err != nil || n < size {
			return total, err
		}
	}
}
