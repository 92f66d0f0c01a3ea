// Package transport serves a gqlgen schema over HTTP, server-sent events and WebSockets: content
// negotiation, persisted documents, limits, compression, and a log line, a metric and a span for
// each operation. It knows nothing of the schema's resolvers and their packages; Config injects how
// callers are authenticated and limited. Package graph creates its Handler.
package transport

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.opentelemetry.io/otel/trace"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// Config are the schema, the callers and the limits of a Handler.
type Config struct {
	Schema graphql.ExecutableSchema
	// Extensions of the executor, in addition to those of the limits.
	Extensions []graphql.HandlerExtension
	// Authenticate returns the caller of a request with an Authorization header, also with an
	// error.
	Authenticate func(ctx context.Context, authorization string) (Caller, error)
	// Requests limits the requests of a caller and Cost the points of their operations.
	Requests, Cost Budget
	// Bounds limit one request.
	Bounds config.Bounds
	Maxima limit.Maxima
	// Passwords are the fields that hash a password.
	Passwords limit.Passwords
	// Documents may be requested by ID; may be nil. DocumentsOnly refuses all others.
	Documents     *Manifest
	DocumentsOnly bool
	// Origins are the origins whose pages may open a WebSocket.
	Origins web.Origins
	// Introspection allows questions about the schema, and suggestions for misspelt names.
	Introspection bool
	// Log receives a line for each operation, and internal errors.
	Log *slog.Logger
	// Tracer creates the spans of operations; nil disables them.
	Tracer trace.Tracer
	// Now is the clock.
	Now func() time.Time
}

// Handler serves GraphQL over HTTP (https://graphql.github.io/graphql-over-http/draft/): POST with
// a JSON body, and GET for queries; and subscriptions by server-sent events, with either method,
// and over WebSockets. There are no cookies, forms or multipart bodies, so no other site can make a
// browser act for its user.
type Handler struct {
	config    Config
	exec      *executor.Executor
	arguments *limit.Arguments
	persisted persisted
	observed  counters
	// streams bounds subscriptions, sockets the connections that the HTTP server does not know any
	// more.
	streams, sockets *slots
	// bodies shares the memory of large request bodies between their owners.
	bodies *admission.Queue
	// expensive shares the processors between the owners of expensive operations.
	expensive *admission.Queue
	// stopping ends when the server stops, stop ends it.
	stopping context.Context
	stop     context.CancelFunc
	// gzipWriters are *gzip.Writer: each has a megabyte of its own.
	gzipWriters sync.Pool
}

// New returns a handler. Its Run must be running while it serves.
func New(c Config) *Handler {
	documents := validDocuments{lru.New[*ast.QueryDocument](maxValidDocuments), c.Documents}
	h := &Handler{
		config: c, exec: executor.New(c.Schema), arguments: &limit.Arguments{},
		persisted: newPersisted(maxPersistedBytes),
		streams:   &slots{max: maxStreams, maxOfCaller: maxStreamsOfCaller, maxOfGroup: maxStreamsOfGroup},
		sockets:   &slots{max: maxSockets, maxOfCaller: maxSocketsOfCaller, maxOfGroup: maxSocketsOfGroup},
		bodies:    newBodies(c.Bounds),
		expensive: newExpensive(),
	}
	h.stopping, h.stop = context.WithCancel(context.Background())
	h.exec.SetErrorPresenter(h.present)
	h.exec.SetRecoverFunc(func(_ context.Context, p any) error { return errs.Panic(p) })
	h.exec.SetParserTokenLimit(c.Maxima.Tokens)
	h.exec.SetQueryCache(documents)
	h.exec.SetDisableSuggestion(!c.Introspection)
	h.exec.SetDefaultRulesFn(limit.ValidationRules)
	h.exec.Use(&limit.Document{
		Bounds: c.Bounds, Maxima: c.Maxima, Valid: documents, Introspection: c.Introspection, Passwords: c.Passwords,
	})
	h.exec.Use(h.arguments)
	h.exec.Use(&limit.Cost{Max: c.Bounds.Cost, Charge: c.Cost.ChargeWork})
	for _, e := range c.Extensions {
		h.exec.Use(e)
	}
	if c.Introspection {
		h.exec.Use(extension.Introspection{})
	}
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isWebSocket(r) {
		h.serveSocket(w, r)
		return
	}
	observing, end := h.observe(r.Context(), r.Header.Get("X-Request-Id"))
	defer end()
	r = r.WithContext(observing)
	accepted := parseAccept(r.Header.Values("Accept"))
	media, ok := accepted.negotiate()
	events := r.Method != http.MethodHead && accepted.events()
	if !ok && !events {
		h.refuse(r.Context(), w, mediaJSON, http.StatusNotAcceptable, errs.New(errs.BadRequest,
			"The answer is application/graphql-response+json, application/json or, of a subscription, "+
				"text/event-stream: accept one of them."))
		return
	}
	if err := checkParts(r); err != nil {
		h.refuse(r.Context(), w, media, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.config.Bounds.Deadline)
	defer cancel()
	caller, status, err := h.authenticate(ctx, w.Header(), r.Header.Get("Authorization"))
	if err != nil {
		h.refuse(r.Context(), w, media, status, err)
		return
	}
	ctx = caller.attach(ctx)
	release, err := h.admitBody(ctx, r)
	if err != nil {
		h.refuse(r.Context(), w, media, errs.From(err).Kind.Status(), err)
		return
	}
	defer release()
	p, status, err := h.read(w, r.WithContext(ctx))
	if err != nil {
		h.refuse(r.Context(), w, media, status, err)
		return
	}
	operation, problems, err := h.prepare(ctx, p)
	if err == nil && events && (!ok || isKind(operation, ast.Subscription)) &&
		(r.Method == http.MethodPost || !isKind(operation, ast.Mutation)) {
		h.serveEvents(caller.attach(r.Context()), w, r, operation, problems)
		return
	}
	var answer result
	if err == nil {
		answer, status, err = h.execute(ctx, r.Method, operation, problems)
	}
	addCost(w.Header(), operation)
	if err != nil {
		h.refuse(r.Context(), w, media, cmp.Or(status, errs.From(err).Kind.Status()), err)
		return
	}
	// A client that accepts plain JSON expects 200 for all well-formed GraphQL (section 6.4.1).
	if media == mediaJSON && status == http.StatusBadRequest {
		status = http.StatusOK
	}
	h.write(w, media, status, answer, acceptsCompressed(r, operation))
}

// isKind reports whether an operation, which may have problems, is of the kind.
func isKind(operation *graphql.OperationContext, kind ast.Operation) bool {
	return operation != nil && operation.Operation != nil && operation.Operation.Operation == kind
}

// prepare finds the document of an operation, validates the operation, and takes its cost from the
// caller's budget. Problems are for the client as they are. A document that was sent with its hash
// is persisted if it is valid.
func (h *Handler) prepare(
	ctx context.Context, p *params,
) (operation *graphql.OperationContext, problems gqlerror.List, err error) {
	defer func() { observedIn(ctx).prepared(operation, problems, err) }()
	defer recoverTo(&err)
	text, hash, err := h.document(p)
	if errs.Is(err, errs.DocumentUnknown) || errs.Is(err, errs.NoPersistedQueries) {
		return nil, gqlerror.List{h.present(ctx, err)}, nil // clients expect a GraphQL response, not a broken request
	}
	if err != nil {
		return nil, nil, err
	}
	ctx = graphql.StartOperationTrace(ctx)
	operation, problems = h.exec.CreateOperationContext(ctx, &graphql.RawParams{
		Query: text, OperationName: p.OperationName, Variables: p.Variables, Extensions: p.Extensions,
	})
	problems = h.arguments.ReplaceVariableProblem(operation, p.Variables, problems)
	if len(problems) == 0 {
		problems = checkSubscription(operation)
	}
	if len(problems) > 0 {
		problems = h.exec.DispatchError(graphql.WithOperationContext(ctx, operation), problems).Errors
		return operation, problems, nil
	}
	if hash != "" {
		h.persisted.Set(hash, text)
	}
	return operation, nil, h.chargeCost(ctx, operation)
}

// execute runs a prepared operation. The status is the one for application/graphql-response+json.
func (h *Handler) execute(
	ctx context.Context, method string, operation *graphql.OperationContext, problems gqlerror.List,
) (answer result, status int, err error) {
	if len(problems) > 0 {
		return result{Errors: problems}, http.StatusBadRequest, nil
	}
	status = http.StatusBadRequest
	if method != http.MethodPost && !isKind(operation, ast.Query) {
		status = http.StatusMethodNotAllowed
	}
	if isKind(operation, ast.Subscription) {
		return result{}, status, errs.New(errs.BadRequest,
			"A subscription goes over WebSocket (graphql-transport-ws), "+
				"or by server-sent events: ask with Accept: text/event-stream.")
	}
	if status == http.StatusMethodNotAllowed {
		return result{}, status, errs.New(errs.BadRequest, "GET only executes queries: send a mutation by POST.")
	}
	answer, err = h.dispatch(ctx, operation)
	if err != nil {
		return result{}, errs.From(err).Kind.Status(), err
	}
	return answer, http.StatusOK, nil
}

// dispatch executes a query or a mutation.
func (h *Handler) dispatch(ctx context.Context, operation *graphql.OperationContext) (answer result, err error) {
	defer func() { observedIn(ctx).finished(answer.Errors, err) }()
	defer recoverTo(&err)
	ctx, leave, err := h.enterExpensive(ctx, operation)
	if err != nil {
		return result{}, err
	}
	defer leave()
	responses, ctx := h.exec.DispatchOperation(ctx, operation)
	response := responses(ctx)
	if response == nil {
		return result{}, errTimeout(nil)
	}
	return resultOf(response), nil
}

// Run waits until the context ends, and then ends all streams: http.Server.Shutdown would wait for
// event streams, and does not know WebSockets. It returns nil.
func (h *Handler) Run(ctx context.Context) error {
	<-ctx.Done()
	h.stop()
	h.sockets.close()
	return nil
}
