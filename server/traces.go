package main

import (
	"net/http"

	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/web"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope names what makes the spans.
	scope = "github.com/linkforge/linkforge"
	// flushDeadline bounds how long the end waits for spans to be sent: they are not worth more.
	flushDeadline = 5 * time.Second
	// complainEvery is how often the log hears that spans cannot be sent.
	complainEvery = time.Minute
)

// traceExport sends spans to a collector. A nil one sends none, and makes none.
type traceExport struct {
	provider *sdk.TracerProvider
}

// openTraces sends spans by OTLP over HTTP when OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and returns nil otherwise. The other standard
// variables hold too: headers, sampling, the service's name
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
func openTraces(ctx context.Context, version string, log *slog.Logger) (*traceExport, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_…: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: log, now: time.Now})
	return newTraces(ctx, version, sdk.NewBatchSpanProcessor(exporter))
}

func newTraces(ctx context.Context, version string, to sdk.SpanProcessor) (*traceExport, error) {
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "linkforge"),
			attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return &traceExport{sdk.NewTracerProvider(sdk.WithResource(who), sdk.WithSpanProcessor(eventful{to}))}, nil
}

// Tracer makes spans; nil when there are none to be made.
func (t *traceExport) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Close sends the remaining spans, for a few seconds at most.
func (t *traceExport) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushDeadline)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}

// onlyWithChildren marks a span that is sent only when something happened within it.
var onlyWithChildren = attribute.Bool("linkforge.only_with_children", true)

// startQuiet starts a span that is exported only when it has child spans. A redirect out of memory
// has none.
func startQuiet(ctx context.Context, t trace.Tracer, name string) (context.Context, trace.Span) {
	return t.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(onlyWithChildren))
}

// eventful drops quiet spans without child spans.
type eventful struct{ sdk.SpanProcessor }

// OnEnd implements sdk.SpanProcessor.
func (e eventful) OnEnd(s sdk.ReadOnlySpan) {
	if s.ChildSpanCount() == 0 {
		for _, a := range s.Attributes() {
			if a == onlyWithChildren {
				return
			}
		}
	}
	e.SpanProcessor.OnEnd(s)
}

// complaints logs failed exports of spans at most once in a while.
type complaints struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.last) >= complainEvery {
		c.last = now
		c.log.Warn("spans are not sent", "error", err)
	}
}

// trace lets the database and Redis make spans, if there are any to be made.
func (a *app) trace() {
	if t := a.traces.Tracer(); t != nil {
		a.db.Trace(t)
		a.kv.Trace(t)
	}
}

// traced makes spans of requests, if there are any to be made.
func (a *app) traced(next http.Handler) http.Handler {
	if t := a.traces.Tracer(); t != nil {
		return web.Trace(t)(next)
	}
	return next
}
