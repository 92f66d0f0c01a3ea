package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/web"
)

// Endpoint answers GraphQL over HTTP (https://graphql.github.io/graphql-over-http/draft/): POST with a JSON body,
// and GET for queries; and subscriptions by server-sent events, by either method, and over WebSockets. There are no cookies, forms or
// multipart bodies, so no other site can make a browser act for its user.
type Endpoint struct {
	*resolver
	exec *executor.Executor
	// arguments checks the arguments of each operation.
	arguments *argumentCheck
	// persisted are documents that clients name by their hash.
	persisted persisted
	// streams bounds subscriptions, sockets connections that the HTTP server does not know of any more.
	streams, sockets *seats
	// ending is over when the server stops, which end says.
	ending context.Context
	end    context.CancelFunc
	// zippers are *gzip.Writer: each has a megabyte of its own.
	zippers sync.Pool
}

// params are an operation as a request carries it.
type params struct {
	Query, DocumentID, OperationName string
	Variables, Extensions            map[string]any
}

// unmarshal reads the body of a request.
func (p *params) unmarshal(body []byte) error {
	return unmarshalObject(body, map[string]any{
		"query": &p.Query, "documentId": &p.DocumentID, "operationName": &p.OperationName,
		"variables": &p.Variables, "extensions": &p.Extensions,
	})
}

// result is what a request comes to. Data is absent, not null, when nothing was executed.
type result struct {
	Errors     gqlerror.List   `json:"errors,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Extensions map[string]any  `json:"extensions,omitempty"`
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wantsSocket(r) {
		e.serveSocket(w, r)
		return
	}
	observing, end := e.observe(r.Context(), r.Header.Get("X-Request-Id"))
	defer end()
	r = r.WithContext(observing)
	accepted := parseAccept(r.Header.Values("Accept"))
	media, ok := accepted.negotiate()
	events := r.Method != http.MethodHead && accepted.events()
	if !ok && !events {
		e.refuse(r.Context(), w, mediaJSON, http.StatusNotAcceptable, errs.New(errs.BadRequest,
			"The answer is application/graphql-response+json, application/json or, of a subscription, text/event-stream: accept one of them."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), e.Bounds.Deadline)
	defer cancel()
	ctx, refused := e.Accounts.Authenticate(ctx, r.Header.Get("Authorization"))
	if err := e.charge(ctx, w.Header()); err != nil { // of the address, if it is nobody
		e.refuse(r.Context(), w, media, http.StatusTooManyRequests, err)
		return
	}
	if refused != nil {
		if errs.Is(refused, errs.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		e.refuse(r.Context(), w, media, errs.From(refused).Kind.Status(), refused)
		return
	}
	p, status, err := e.read(w, r.WithContext(ctx))
	if err != nil {
		e.refuse(r.Context(), w, media, status, err)
		return
	}
	operation, problems, err := e.prepare(ctx, p)
	if err == nil && events && (!ok || isSubscription(operation)) && (r.Method == http.MethodPost || !isMutation(operation)) {
		e.serveEvents(lasting(r.Context(), ctx), w, r, operation, problems)
		return
	}
	var answer result
	if err == nil {
		answer, status, err = e.execute(e.withLoaders(ctx), r.Method, operation, problems)
	}
	if err != nil {
		status = cmp.Or(status, errs.From(err).Kind.Status())
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		e.refuse(r.Context(), w, media, status, err)
		return
	}
	// A client that asks for plain JSON expects 200 for whatever is well-formed GraphQL (section 6.4.1).
	if media == mediaJSON && status == http.StatusBadRequest {
		status = http.StatusOK
	}
	e.write(w, media, status, answer, mayZip(r, operation))
}

// isMutation says so of an operation that may have problems.
func isMutation(operation *graphql.OperationContext) bool {
	return operation != nil && operation.Operation != nil && operation.Operation.Operation == ast.Mutation
}

// charge counts the request of a person, an API key or, for nobody, an address, and says in the headers what is left
// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/). It returns RateLimited.
func (e *Endpoint) charge(ctx context.Context, head http.Header) error {
	rate := ratelimit.Rate{Name: "requests", Attempts: e.RequestRate, Window: time.Minute}
	allowance, err := e.Limits.Spend(ctx, rate, subject(ctx), 1)
	if allowance.Known {
		head.Set("RateLimit-Policy", fmt.Sprintf(`"requests";q=%d;w=%d`, rate.Attempts, int(rate.Window.Seconds())))
		head.Set("RateLimit", fmt.Sprintf(`"requests";r=%d;t=%d`, allowance.Left, int(allowance.Reset.Seconds())))
	}
	return err
}

// subject is whom requests are counted for.
func subject(ctx context.Context) string {
	actor, err := account.Current(ctx)
	switch {
	case err != nil:
		return web.AddressOf(ctx)
	case actor.Key != nil:
		return actor.Key.ID
	}
	return actor.AccountID
}

// prepare finds an operation's document, reads and checks it, and takes its cost from its caller's points: what it returns as
// problems is for the caller, who is told no more. A document that clients may name by its hash is kept, if it is good.
func (e *Endpoint) prepare(ctx context.Context, p *params) (operation *graphql.OperationContext, problems gqlerror.List, err error) {
	defer func() { observedIn(ctx).prepared(operation, problems, err) }()
	defer func() {
		if value := recover(); value != nil {
			err = panicked{value}
		}
	}()
	text, hash, err := e.find(p)
	if errs.Is(err, errs.DocumentUnknown) || errs.Is(err, errs.NoPersistedQueries) {
		return nil, gqlerror.List{e.present(ctx, err)}, nil // which clients await as an answer, not as a broken request
	}
	if err != nil {
		return nil, nil, err
	}
	ctx = graphql.StartOperationTrace(ctx)
	operation, problems = e.exec.CreateOperationContext(ctx, &graphql.RawParams{
		Query: text, OperationName: p.OperationName, Variables: p.Variables, Extensions: p.Extensions,
	})
	problems = e.arguments.replaceVariableProblem(operation, p.Variables, problems)
	if len(problems) == 0 {
		problems = checkRoot(operation)
	}
	if len(problems) > 0 {
		problems = e.exec.DispatchError(graphql.WithOperationContext(ctx, operation), problems).Errors
		return operation, problems, nil
	}
	if hash != "" {
		e.persisted.texts.Set(hash, text)
	}
	return operation, nil, e.spend(ctx, operation)
}

// execute runs a prepared operation. The status is the one for application/graphql-response+json.
func (e *Endpoint) execute(
	ctx context.Context, method string, operation *graphql.OperationContext, problems gqlerror.List,
) (answer result, status int, err error) {
	if len(problems) > 0 {
		return result{Errors: problems}, http.StatusBadRequest, nil
	}
	status = http.StatusBadRequest
	if method != http.MethodPost && operation.Operation.Operation != ast.Query {
		status = http.StatusMethodNotAllowed
	}
	if isSubscription(operation) {
		return result{}, status, errs.New(errs.BadRequest, "A subscription goes over WebSocket (graphql-transport-ws), "+
			"or by server-sent events: ask with Accept: text/event-stream.")
	}
	if status == http.StatusMethodNotAllowed {
		return result{}, status, errs.New(errs.BadRequest, "GET only executes queries: send a mutation by POST.")
	}
	answer, err = e.dispatch(ctx, operation)
	if err != nil {
		return result{}, errs.From(err).Kind.Status(), err
	}
	return answer, http.StatusOK, nil
}

// dispatch executes a query or a mutation.
func (e *Endpoint) dispatch(ctx context.Context, operation *graphql.OperationContext) (answer result, err error) {
	defer func() { observedIn(ctx).answered(answer.Errors, err) }()
	defer func() {
		if value := recover(); value != nil {
			err = panicked{value}
		}
	}()
	responses, ctx := e.exec.DispatchOperation(ctx, operation)
	response := responses(ctx)
	if response == nil {
		return result{}, errs.New(errs.Unavailable, "The operation took too long and was ended.")
	}
	return result{Errors: response.Errors, Data: response.Data, Extensions: response.Extensions}, nil
}

// read takes the operation out of a request. The status goes with the error.
func (e *Endpoint) read(w http.ResponseWriter, r *http.Request) (p *params, status int, err error) {
	if r.Method == http.MethodPost {
		return e.readBody(w, r)
	}
	return readQuery(r)
}

func (e *Endpoint) readBody(w http.ResponseWriter, r *http.Request) (*params, int, error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, http.StatusUnsupportedMediaType, errs.New(errs.BadRequest, "The body must be sent as application/json in UTF-8.")
	}
	if r.Header.Get("Content-Encoding") != "" { // a small body could be a large one
		w.Header().Set("Accept-Encoding", "identity")
		return nil, http.StatusUnsupportedMediaType, errs.New(errs.BadRequest, "The body must be sent as it is, without Content-Encoding.")
	}
	limit := e.Bounds.Body
	if _, err := account.Current(r.Context()); err != nil {
		limit = e.Bounds.AnonymousBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, http.StatusRequestEntityTooLarge, errs.New(errs.TooLarge,
			"The body is larger than %d bytes, which is the most: %d without log-in, %d with.", limit, e.Bounds.AnonymousBody, e.Bounds.Body)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body did not arrive whole.").Because(err)
	}
	if err := checkValues(body, e.Bounds.Values); err != nil {
		return nil, http.StatusRequestEntityTooLarge, err
	}
	var p params
	if err := p.unmarshal(body); err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body must be one JSON object: query and documentId are strings, "+
			"operationName a string or null, variables and extensions are objects or null.").Because(err)
	}
	return &p, 0, nil
}

func readQuery(r *http.Request) (*params, int, error) {
	query := r.URL.Query()
	p := &params{Query: query.Get("query"), DocumentID: query.Get("documentId"), OperationName: query.Get("operationName")}
	for name, target := range map[string]*map[string]any{"variables": &p.Variables, "extensions": &p.Extensions} {
		if text := query.Get(name); text != "" {
			if err := unmarshal([]byte(text), target); err != nil {
				return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "%s must be a JSON object.", name).Because(err)
			}
		}
	}
	return p, 0, nil
}

// refuse answers a request that was not executed.
func (e *Endpoint) refuse(ctx context.Context, w http.ResponseWriter, media string, status int, err error) {
	observedIn(ctx).answered(nil, err)
	shown := e.present(context.WithoutCancel(ctx), err)
	if wait, ok := shown.Extensions["retryAfter"].(int); ok {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	e.write(w, media, status, result{Errors: gqlerror.List{shown}}, false)
}

func (e *Endpoint) write(w http.ResponseWriter, media string, status int, answer result, zip bool) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // the executor's own JSON does not parse
	}
	h := w.Header()
	h.Set("Content-Type", media+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept, Accept-Encoding, Authorization")
	if zip && len(body) >= leastZipped {
		h.Set("Content-Encoding", "gzip")
		body = e.zip(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone cannot be told
}
