package pgscope

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// The codes of errors that packages distinguish
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	SerializationFailure = "40001"
	DeadlockDetected     = "40P01"
	LockNotAvailable     = "55P03"
	ForeignKeyViolation  = "23503"
	CheckViolation       = "23514"
	UniqueViolation      = "23505"

	queryCanceled              = "57014"
	readOnlyTransaction        = "25006"
	duplicatePreparedStatement = "42P05"
	invalidStatementName       = "26000"
	featureNotSupported        = "0A000"
)

// Code returns the SQLSTATE of an error of PostgreSQL's, or an empty text.
func Code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// explain turns PostgreSQL's timeouts and an unavailable server into Unavailable, unless the caller
// is gone.
func explain(ctx context.Context, err error) error {
	switch code := Code(err); {
	case err == nil || ctx.Err() != nil:
		return err
	case code == LockNotAvailable || code == queryCanceled:
		return ErrTooLong().Because(err)
	case IsUnavailable(err):
		return errs.New(errs.Unavailable, "The database is unavailable. Try again in a moment.").Because(err)
	case code == duplicatePreparedStatement || code == invalidStatementName:
		return fmt.Errorf("%w: %w", errUnprepared, err)
	}
	return err
}

// ErrTooLong is the error of a statement that has timed out.
func ErrTooLong() *errs.Error {
	return errs.New(errs.Unavailable,
		"The database took too long. Try again in a moment, request fewer items, or use a narrower filter.")
}

// IsUnavailable reports whether there is no server, or one that accepts no statements for now.
func IsUnavailable(err error) bool {
	if errs.IsOutage(err) || errors.Is(err, pgconn.ErrConnClosed) {
		return true
	}
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}
