package errs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// result is an error of SQLite, whose type cannot be constructed.
type result int

func (r result) Error() string { return fmt.Sprintf("result %d", int(r)) }
func (r result) Code() int     { return int(r) }

func TestIsOutage_FollowsOneRule(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"connection exception":        {state("08006"), true},
		"invalid password":            {state("28P01"), true},
		"invalid authorization":       {state("28000"), true},
		"database renamed":            {state("3D000"), true},
		"deadlock":                    {state("40P01"), true},
		"serialization failure":       {state("40001"), true},
		"disk full":                   {state("53100"), true},
		"too many connections":        {state("53300"), true},
		"lock not available":          {state("55P03"), true},
		"query canceled":              {state("57014"), true},
		"cannot connect now":          {state("57P03"), true},
		"standby":                     {state("25006"), true},
		"idle transaction":            {state("25P03"), true},
		"transaction timeout":         {state("25P04"), true},
		"unique violation":            {state("23505"), false},
		"undefined table":             {state("42P01"), false},
		"SQLITE_BUSY":                 {result(5), true},
		"SQLITE_INTERRUPT":            {result(9), true},
		"SQLITE_IOERR_WRITE":          {result(10 | 3<<8), true},
		"SQLITE_FULL":                 {result(13), true},
		"SQLITE_CANTOPEN":             {result(14), true},
		"SQLITE_CONSTRAINT_UNIQUE":    {result(2067), false},
		"SQLITE_CORRUPT":              {result(11), false},
		"no file descriptors":         {&os.PathError{Op: "open", Err: syscall.EMFILE}, true},
		"no space":                    {fmt.Errorf("writing: %w", syscall.ENOSPC), true},
		"refused connection":          {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"deadline":                    {context.DeadlineExceeded, true},
		"connection closed half-way":  {io.ErrUnexpectedEOF, true},
		"disconnected client":         {context.Canceled, false},
		"no rows":                     {sql.ErrNoRows, false},
		"a mistake of the programmer": {errors.New("index out of range"), false},
	} {
		err := fmt.Errorf("doing something: %w", c.err)
		if got := IsOutage(err); got != c.want {
			t.Errorf("%s: IsOutage returned %t, want %t", name, got, c.want)
		}
		e, want := From(err), Internal
		if c.want {
			want = Unavailable
		}
		if e.Kind != want || (e.Retry() > 0) != c.want {
			t.Errorf("%s: kind %s with a retry after %s, want %s", name, e.Kind.Code(), e.Retry(), want.Code())
		}
	}
}

func TestLogLevel_TimeoutIsAWarning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want slog.Level
	}{
		"deadline":         {fmt.Errorf("reading: %w", context.DeadlineExceeded), slog.LevelWarn},
		"explained":        {New(Unavailable, "too slow").Because(context.DeadlineExceeded), slog.LevelWarn},
		"SQLITE_INTERRUPT": {result(sqliteInterrupt), slog.LevelWarn},
		"query canceled":   {&pgconn.PgError{Code: "57014"}, slog.LevelWarn},
		"i/o timeout":      {&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, slog.LevelWarn},
		"lock timeout":     {&pgconn.PgError{Code: "55P03"}, slog.LevelWarn},
		"shutdown":         {&pgconn.PgError{Code: "57P01"}, slog.LevelError},
		"refused":          {syscall.ECONNREFUSED, slog.LevelError},
		"SQLITE_FULL":      {result(13), slog.LevelError},
		"canceled":         {context.Canceled, slog.LevelError},
		"other":            {errors.New("other"), slog.LevelError},
	} {
		if got := LogLevel(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
