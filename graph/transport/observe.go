package transport

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
)

const (
	// maxOperationName bounds the name of an operation in the log, in bytes: clients choose it.
	maxOperationName = 64
	// kindUnread is the kind of an operation that could not be parsed.
	kindUnread = "unread"
	// outcomeOK is the outcome of an operation without a top-level error.
	outcomeOK = "ok"
)

// observed is the operator's record of an operation: kind, name, duration, cost and outcome, but
// neither the document nor the variables.
type observed struct {
	h         *Handler
	span      trace.Span
	requestID string
	start     time.Time

	mu               sync.Mutex
	kind, name, code string
	cost             int
}

type observedKey struct{}

// observe starts the observation of an operation and returns the operation's context; end ends it.
func (h *Handler) observe(ctx context.Context, requestID string) (_ context.Context, end func()) {
	o := &observed{h: h, requestID: requestID, start: h.config.Now(), kind: kindUnread}
	ctx, o.span = cmp.Or[trace.Tracer](h.config.Tracer, noop.Tracer{}).Start(ctx, "GraphQL")
	ctx = context.WithValue(ctx, observedKey{}, o)
	return ctx, func() { o.end(ctx) }
}

// observedIn returns the operation of a context: nil if there is none, as when a connection is
// refused.
func observedIn(ctx context.Context) *observed {
	o, _ := ctx.Value(observedKey{}).(*observed)
	return o
}

// prepared records the operation. Problems and err prevent its execution.
func (o *observed) prepared(operation *graphql.OperationContext, problems gqlerror.List, err error) {
	if o == nil {
		return
	}
	if operation != nil && operation.Operation != nil {
		o.mu.Lock()
		o.kind, o.name = string(operation.Operation.Operation), shownName(operation.Operation.Name)
		if b := limit.BillOf(operation); b != nil {
			o.cost = b.Cost
		}
		o.mu.Unlock()
	}
	o.finished(problems, err)
}

// finished records the outcome of the operation: the code of its first error.
func (o *observed) finished(all gqlerror.List, err error) {
	if o == nil {
		return
	}
	code := ""
	switch {
	case err != nil:
		code = errs.From(err).Kind.Code()
	case len(all) > 0:
		code, _ = all[0].Extensions["code"].(string)
		code = cmp.Or(code, errs.Internal.Code())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.code = cmp.Or(o.code, code)
}

// end logs and counts the operation, and ends its span.
func (o *observed) end(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	took, outcome := o.h.config.Now().Sub(o.start), cmp.Or(o.code, outcomeOK)
	o.h.observed.add(o.kind, outcome, took)
	o.endSpan(outcome)
	traceID := ""
	if s := o.span.SpanContext(); s.IsValid() {
		traceID = s.TraceID().String()
	}
	attributes := slices.DeleteFunc([]slog.Attr{
		slog.String("kind", o.kind), slog.String("name", o.name), slog.String("outcome", outcome),
		slog.Duration("duration", took), slog.Int("cost", o.cost), slog.String("request_id", o.requestID),
		slog.String("trace_id", traceID),
	}, func(a slog.Attr) bool { return a.Value.Equal(slog.StringValue("")) || a.Value.Equal(slog.IntValue(0)) })
	o.h.config.Log.LogAttrs(ctx, slog.LevelInfo, "operation", attributes...)
}

// endSpan describes the operation as the log does. It omits the text of errors, which may repeat
// the request.
func (o *observed) endSpan(outcome string) {
	if o.span.IsRecording() {
		o.span.SetName("GraphQL " + o.kind)
		o.span.SetAttributes(attribute.String("graphql.operation.type", o.kind),
			attribute.String("graphql.operation.name", o.name),
			attribute.Int("linkforge.cost", o.cost), attribute.String("linkforge.outcome", outcome))
		if outcome == errs.Internal.Code() || outcome == errs.Unavailable.Code() {
			o.span.SetStatus(codes.Error, outcome)
		}
	}
	o.span.End()
}

// shownName returns the name of an operation for the log: characters of GraphQL names only, and not
// too many.
func shownName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return -1
	}, name)
	return name[:min(len(name), maxOperationName)]
}

// Stats count the operations of a handler by kind.
type Stats struct {
	// Outcomes are the numbers of operations by outcome: ok, or the code of the first top-level
	// error.
	Outcomes  map[string]map[string]int64
	Durations map[string]web.Spread
}

// counters count operations. Kinds and outcomes are constants of this program, so the maps stay
// small.
type counters struct {
	mu        sync.Mutex
	outcomes  map[string]map[string]int64
	durations map[string]*web.Durations
}

func (t *counters) add(kind, outcome string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcomes == nil {
		t.outcomes, t.durations = map[string]map[string]int64{}, map[string]*web.Durations{}
	}
	if t.outcomes[kind] == nil {
		t.outcomes[kind], t.durations[kind] = map[string]int64{}, &web.Durations{}
	}
	t.outcomes[kind][outcome]++
	t.durations[kind].Add(took)
}

// Stats returns the operations since the handler was created.
func (h *Handler) Stats() Stats {
	t := &h.observed
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Stats{Outcomes: map[string]map[string]int64{}, Durations: map[string]web.Spread{}}
	// Metrics exist before the first operation.
	for _, kind := range []ast.Operation{ast.Query, ast.Mutation, ast.Subscription} {
		all.Outcomes[string(kind)], all.Durations[string(kind)] = map[string]int64{outcomeOK: 0}, web.Spread{}
	}
	for kind, outcomes := range t.outcomes {
		all.Outcomes[kind], all.Durations[kind] = maps.Clone(outcomes), t.durations[kind].Spread()
	}
	return all
}
