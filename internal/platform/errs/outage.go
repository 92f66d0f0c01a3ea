package errs

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outageRetry is when a retry of an Unavailable operation is suggested.
const outageRetry = 5 * time.Second

// IsOutage reports whether an error of a dependency is temporary: it is unreachable or overloaded,
// has no space, files or connections left, is shut down or misconfigured for now, or gave up on
// locks. It is the only rule, for PostgreSQL by SQLSTATE, for SQLite by result code, and for the
// network and files by the error of the system.
// (https://www.postgresql.org/docs/current/errcodes-appendix.html,
// https://www.sqlite.org/rescode.html)
func IsOutage(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false // the caller has disconnected
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return isOutageState(e.SQLState())
	}
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok && isOutageResult(e.Code()) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SafeToRetry() bool
	}](err); ok && e.SafeToRetry() { // pgconn could not send the statement
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC,
		syscall.EDQUOT, syscall.EIO, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	}, func(outage error) bool { return errors.Is(err, outage) })
}

// IsTimeout reports whether a deadline or a timeout has ended a call, which says nothing of the
// state of the dependency. PostgreSQL and SQLite return query_canceled, lock_not_available or
// SQLITE_INTERRUPT, and connections "i/o timeout".
func IsTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState() == "57014" || e.SQLState() == "55P03"
	}
	e, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && e.Code()&0xff == sqliteInterrupt
}

// LogLevel returns the level of an error in the log: WARN if a call took too long and is or can be
// repeated, and ERROR otherwise.
func LogLevel(err error) slog.Level {
	if IsTimeout(err) {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// isOutageState reports whether an SQLSTATE is one of: connection exception, invalid authorization,
// invalid database, insufficient resources, operator intervention, system error, serialization
// failure, deadlock, lock not available, a server that became read-only, and the timeouts of a
// transaction.
func isOutageState(state string) bool {
	classes := []string{"08", "28", "3D", "53", "57", "58"}
	states := []string{"40001", "40P01", "55P03", "25006", "25P03", "25P04"}
	return slices.Contains(states, state) ||
		slices.ContainsFunc(classes, func(class string) bool { return strings.HasPrefix(state, class) })
}

// sqliteInterrupt is the result code of a statement that the end of its context has ended.
const sqliteInterrupt = 9

// isOutageResult reports whether a result code of SQLite is SQLITE_BUSY, LOCKED, READONLY,
// INTERRUPT, IOERR, FULL or CANTOPEN.
func isOutageResult(code int) bool {
	return slices.Contains([]int{5, 6, 8, sqliteInterrupt, 10, 13, 14}, code&0xff)
}
