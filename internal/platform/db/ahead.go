package db

import (
	"context"
	"log/slog"
	"time"
)

// MaxSkew is how much the clocks of two nodes may differ.
const MaxSkew = time.Minute

// Latest returns the latest instant that is believed, of those that nodes write at most longest
// ahead of their clocks. A later one was written by a node whose clock was ahead: all others would
// wait for it, so it counts as past.
func Latest(now time.Time, longest time.Duration) time.Time {
	return Instant(now.Add(longest + MaxSkew))
}

// WarnOfClock logs that a stored instant was not believed. The attributes say whose it is.
func WarnOfClock(ctx context.Context, log *slog.Logger, instant string, attributes ...any) {
	log.WarnContext(ctx, "an instant lies further ahead than it can: the clock of a node was ahead, so it is ignored",
		append([]any{"instant", instant}, attributes...)...)
}
