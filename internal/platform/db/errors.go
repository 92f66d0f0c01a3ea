package db

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
)

// sqliteCode returns the extended result code of an error of SQLite's, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// isConflict reports whether a retry of the transaction can succeed
// (https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html,
// https://www.sqlite.org/rescode.html#busy).
func isConflict(err error) bool {
	code := pgscope.Code(err)
	return code == pgscope.SerializationFailure || code == pgscope.DeadlockDetected || sqliteCode(err)&0xff == 5 ||
		errors.Is(err, errGroupAborted)
}

// IsUniqueViolation reports whether a row violates a unique index.
func IsUniqueViolation(err error) bool {
	code := sqliteCode(err)
	// SQLITE_CONSTRAINT_UNIQUE and _PRIMARYKEY
	return pgscope.Code(err) == pgscope.UniqueViolation || code == 2067 || code == 1555
}

// IsOvertaken reports whether another transaction has taken a unique value, or has deleted a row
// that the statement refers to, after this one has read: another attempt finds that out.
func IsOvertaken(err error) bool {
	return IsUniqueViolation(err) || pgscope.Code(err) == pgscope.ForeignKeyViolation ||
		sqliteCode(err) == 787 // SQLITE_CONSTRAINT_FOREIGNKEY
}

// IsCheckViolation reports whether a CHECK constraint refuses a row.
func IsCheckViolation(err error) bool {
	return pgscope.Code(err) == pgscope.CheckViolation || sqliteCode(err) == 275 // SQLITE_CONSTRAINT_CHECK
}

// IsRefused reports whether the values of a statement can never be stored: a retry is useless.
func IsRefused(err error) bool {
	if errors.Is(err, pgscope.ErrScope) {
		return false
	}
	if code := pgscope.Code(err); code != "" {
		// data exception, integrity constraint, limit of the program
		return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
	}
	code := sqliteCode(err) & 0xff
	return code == 18 || code == 19 || code == 20 // SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH
}

// IsLockTimeout reports whether PostgreSQL has cancelled a statement because it waited too long for
// a lock.
func IsLockTimeout(err error) bool { return pgscope.Code(err) == pgscope.LockNotAvailable }

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

// InBatches calls f, which handles a batch of rows and returns how many, until there are fewer than
// size. It returns how many rows all calls have handled.
func InBatches(size int64, f func() (n int64, err error)) (total int64, err error) {
	for {
		n, err := f()
		if total += n; err != nil || n < size {
			return total, err
		}
	}
}
