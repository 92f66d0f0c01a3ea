package redisx

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/breaker"
	"github.com/linkforge/linkforge/internal/errs"
)

// commandDeadline bounds a command or a pipeline. No request waits longer for a Redis that does not
// answer, and after the first one none waits at all.
const commandDeadline = 250 * time.Millisecond

// errOpen is the error of commands while the circuit breaker is open.
var errOpen = errs.New(errs.Unavailable, "Redis is unavailable.")

// Protect bounds every command of the client, and refuses commands while Redis does not answer.
func (c *Client) Protect(log *slog.Logger) {
	if c.breaker != nil || c.InProcess() {
		return
	}
	c.breaker = breaker.New(breaker.Config{Name: "Redis", Log: log, Probe: func(ctx context.Context) error {
		return c.Ready(context.WithValue(ctx, unprotected{}, true))
	}})
	c.AddHook(guard{c.breaker})
}

// IsOpen reports whether the circuit breaker is open.
func (c *Client) IsOpen() bool { return c.breaker != nil && c.breaker.IsOpen() }

// unprotected is the context key of the breaker's own probes.
type unprotected struct{}

// guard is the hook of a protected client.
type guard struct{ *breaker.Breaker }

// DialHook implements redis.Hook.
func (g guard) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (g guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := g.within(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
		if errors.Is(err, errOpen) {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (g guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := g.within(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, errOpen) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (g guard) within(ctx context.Context, do func(context.Context) error) error {
	if ctx.Value(unprotected{}) != nil {
		return do(ctx)
	}
	if g.IsOpen() {
		return errOpen
	}
	attempt, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	err := do(attempt)
	if err != nil && ctx.Err() == nil && isOutage(err) {
		g.Trip(err)
	}
	return err
}

// isOutage reports whether Redis did not answer, or not with a reply to the command.
func isOutage(err error) bool {
	_, isReply := errors.AsType[redis.Error](err)
	return !isReply || redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err)
}
