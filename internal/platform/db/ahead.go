package db

import (
	"context"
	"log/slog"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// MaxSkew is how much the clocks of two nodes may differ.
const MaxSkew = time.Minute

// Latest returns the latest instant that is believed, of those that nodes write at most longest
// ahead of their clocks. A later one was written by a node whose clock was ahead: all others would
// wait for it, so it counts as past.
func Latest(now time.Time, longest time.Duration) time.Time {
	return Instant(now.Add(longest + MaxSkew))
}

// IsAhead reports whether an instant is later than Latest; nil is not.
func IsAhead(instant *time.Time, now time.Time, longest time.Duration) bool {
	return instant != nil && instant.After(Latest(now, longest))
}

// Passed is the condition that the instant in a column has passed, or is later than Latest.
func Passed(column string, now time.Time, longest time.Duration) schema.QueryWithArgs {
	return bun.SafeQuery("(?0 <= ?1 OR ?0 > ?2)", bun.Ident(column), Instant(now), Latest(now, longest))
}

// WarnOfClock logs that a stored instant was not believed. The attributes say whose it is.
func WarnOfClock(ctx context.Context, log *slog.Logger, instant string, attributes ...any) {
	log.WarnContext(ctx, "an instant lies further ahead than it can: the clock of a node was ahead, so it is ignored",
		append([]any{"instant", instant}, attributes...)...)
}
