package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/linkforge/linkforge/internal/errs"
)

// explain says of PostgreSQL's own timeouts, and of a server that is away, that trying again helps.
// To a caller who has gone it says nothing.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case hasTimedOut(err):
		return errs.New(errs.Unavailable, "The database took too long. Try again in a moment, or ask for less at a time.").
			Because(err)
	case isAway(err):
		return errs.New(errs.Unavailable, "The database is away. Try again in a moment.").Because(err)
	case isShared(err):
		return fmt.Errorf("%w: %w", errShared, err)
	}
	return err
}

// isShared reports whether a session has, or lacks, what another connection prepared or this one
// did: somebody between gives it to others as well.
func isShared(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "42P05" || e.Code == "26000") // duplicate_prepared_statement, invalid_sql_statement_name
}

func hasTimedOut(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "55P03" || e.Code == "57014") // lock_not_available, query_canceled
}

// isAway reports whether there is no server, or one that takes nothing for now: a connection that
// cannot be made or breaks, and what is said by servers that stop, start, have become a standby or
// have too many connections, and by poolers without a server
// (https://www.postgresql.org/docs/current/errcodes-appendix.html). What an operator has to mend is
// not among them, as a password.
func isAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", "53300", "25006":
			return true
		}
		return strings.HasPrefix(e.Code, "08")
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{io.ErrUnexpectedEOF, io.EOF, net.ErrClosed, pgconn.ErrConnClosed,
		driver.ErrBadConn},
		func(broken error) bool { return errors.Is(err, broken) })
}
