package graph

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
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

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/obs"
)

const (
	// maxOperationName is how much of an operation's name is shown: clients choose them.
	maxOperationName = 64
	// unread is the kind of an operation that could not be read far enough to have one.
	unread = "unread"
	// fine is the outcome of an operation without a top-level error.
	fine = "ok"
)

// observed is an operation as the operator sees it: its kind, its name, how long it took, what it cost, and what it came to.
// It knows neither the document nor the variables.
type observed struct {
	r         *resolver
	span      trace.Span
	requestID string
	start     time.Time

	mu               sync.Mutex
	kind, name, code string
	cost             int
}

type observedKey struct{}

// observe begins an operation. The context that it returns is the operation's; end is called when it has been answered.
func (r *resolver) observe(ctx context.Context, requestID string) (_ context.Context, end func()) {
	o := &observed{r: r, requestID: requestID, start: r.Now(), kind: unread}
	ctx, o.span = r.tracer().Start(ctx, "GraphQL")
	ctx = context.WithValue(ctx, observedKey{}, o)
	return ctx, func() { o.end(ctx) }
}

func (r *resolver) tracer() trace.Tracer {
	if r.Tracer == nil {
		return noop.Tracer{}
	}
	return r.Tracer
}

// observedIn is the operation of a context: nil where there is none, as when a connection is refused.
func observedIn(ctx context.Context) *observed {
	o, _ := ctx.Value(observedKey{}).(*observed)
	return o
}

// prepared says what the operation is. Problems and an error are those that keep it from being executed.
func (o *observed) prepared(operation *graphql.OperationContext, problems gqlerror.List, err error) {
	if o == nil {
		return
	}
	if operation != nil && operation.Operation != nil {
		o.mu.Lock()
		o.kind, o.name = string(operation.Operation.Operation), shownName(operation.Operation.Name)
		if b := billOf(operation); b != nil {
			o.cost = b.cost
		}
		o.mu.Unlock()
	}
	o.answered(problems, err)
}

// answered says what the operation came to. The first error that is told is its outcome.
func (o *observed) answered(all gqlerror.List, err error) {
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

// end tells of the operation: one line in the log, one count, and its span.
func (o *observed) end(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	took, outcome := o.r.Now().Sub(o.start), cmp.Or(o.code, fine)
	o.r.tally.add(o.kind, outcome, took)
	o.endSpan(outcome)
	attributes := append(make([]slog.Attr, 0, 7), slog.String("kind", o.kind))
	if o.name != "" {
		attributes = append(attributes, slog.String("name", o.name))
	}
	attributes = append(attributes, slog.String("outcome", outcome), slog.Duration("duration", took))
	if o.cost > 0 {
		attributes = append(attributes, slog.Int("cost", o.cost))
	}
	if o.requestID != "" {
		attributes = append(attributes, slog.String("request_id", o.requestID))
	}
	if s := o.span.SpanContext(); s.IsValid() {
		attributes = append(attributes, slog.String("trace_id", s.TraceID().String()))
	}
	o.r.Log.LogAttrs(ctx, slog.LevelInfo, "operation", attributes...)
}

// endSpan says of a span what the log says. An error's text is not in it: it may repeat what was asked.
func (o *observed) endSpan(outcome string) {
	if o.span.IsRecording() {
		o.span.SetName("GraphQL " + o.kind)
		o.span.SetAttributes(attribute.String("graphql.operation.type", o.kind), attribute.String("graphql.operation.name", o.name),
			attribute.Int("linkforge.cost", o.cost), attribute.String("linkforge.outcome", outcome))
		if outcome == errs.Internal.Code() || outcome == errs.Unavailable.Code() {
			o.span.SetStatus(codes.Error, outcome)
		}
	}
	o.span.End()
}

// shownName is an operation's name for the log: the characters that the grammar has for names, and not many of them.
func shownName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return -1
	}, name)
	return name[:min(len(name), maxOperationName)]
}

// Tally is what the endpoint has answered since it was made, by kind of operation.
type Tally struct {
	// Outcomes is how many came to each outcome: ok, or the code of the first top-level error.
	Outcomes map[string]map[string]int64
	// Durations are how long they took.
	Durations map[string]obs.Spread
}

// tally counts operations. Kinds and outcomes are words of this program: there are few.
type tally struct {
	mu        sync.Mutex
	outcomes  map[string]map[string]int64
	durations map[string]*obs.Durations
}

func (t *tally) add(kind, outcome string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcomes == nil {
		t.outcomes, t.durations = map[string]map[string]int64{}, map[string]*obs.Durations{}
	}
	if t.outcomes[kind] == nil {
		t.outcomes[kind], t.durations[kind] = map[string]int64{}, &obs.Durations{}
	}
	t.outcomes[kind][outcome]++
	t.durations[kind].Add(took)
}

// Stats are what the endpoint has answered.
func (e *Endpoint) Stats() Tally {
	t := &e.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Tally{Outcomes: map[string]map[string]int64{}, Durations: map[string]obs.Spread{}}
	for _, kind := range []ast.Operation{ast.Query, ast.Mutation, ast.Subscription} { // shown before the first
		all.Outcomes[string(kind)], all.Durations[string(kind)] = map[string]int64{fine: 0}, obs.Spread{}
	}
	for kind, outcomes := range t.outcomes {
		all.Outcomes[kind], all.Durations[kind] = maps.Clone(outcomes), t.durations[kind].Spread()
	}
	return all
}
