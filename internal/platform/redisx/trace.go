package redisx

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Trace creates a span for each command or pipeline within another span. It records the command's
// name. Keys, values and texts of errors are omitted, because they may contain addresses.
func (c *Client) Trace(t trace.Tracer) { c.AddHook(spans{t}) }

// spans makes a span of each command.
type spans struct{ tracer trace.Tracer }

// DialHook implements redis.Hook.
func (s spans) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s spans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.within(ctx, cmd.Name(), 1, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s spans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.within(ctx, "pipeline", len(cmds), func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (s spans) within(ctx context.Context, name string, commands int, do func(context.Context) error) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return do(ctx) // a loop's
	}
	ctx, span := s.tracer.Start(ctx, "Redis "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"),
		attribute.String("db.operation.name", name),
		attribute.Int("db.operation.batch.size", commands),
	))
	defer span.End()
	err := do(ctx)
	if err != nil && !errors.Is(err, redis.Nil) {
		span.SetStatus(codes.Error, "")
	}
	return err
}
