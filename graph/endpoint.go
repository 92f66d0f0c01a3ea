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
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/web"
)

const (
	// maxBody bounds a request's body of somebody who is logged in, maxAnonymousBody everybody else's.
	maxBody          = 10 << 20
	maxAnonymousBody = 256 << 10
	// operationDeadline bounds one operation.
	operationDeadline = 15 * time.Second
)

// Endpoint answers GraphQL over HTTP (https://graphql.github.io/graphql-over-http/draft/): POST with a JSON body,
// and GET for queries; and subscriptions by server-sent events and over WebSockets. There are no cookies, forms or
// multipart bodies, so no other site can make a browser act for its user.
type Endpoint struct {
	*resolver
	exec *executor.Executor
	// streams bounds subscriptions, sockets connections that the HTTP server does not know of any more.
	streams, sockets *seats
	// ending is over when the server stops, which end says.
	ending context.Context
	end    context.CancelFunc
}

// params are an operation as a request carries it.
type params struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
	Extensions    map[string]any `json:"extensions"`
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
	media, ok := negotiate(r.Header.Values("Accept"))
	events := r.Method == http.MethodPost && acceptsEvents(r.Header.Values("Accept"))
	if !ok && !events {
		e.refuse(w, mediaJSON, http.StatusNotAcceptable, errs.New(errs.BadRequest,
			"The answer is application/graphql-response+json or application/json: accept one of them."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), operationDeadline)
	defer cancel()
	ctx, refused := e.Accounts.Authenticate(ctx, r.Header.Get("Authorization"))
	if err := e.charge(ctx, w.Header()); err != nil { // of the address, if it is nobody
		e.refuse(w, media, http.StatusTooManyRequests, err)
		return
	}
	if refused != nil {
		if errs.Is(refused, errs.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		e.refuse(w, media, errs.From(refused).Kind.Status(), refused)
		return
	}
	p, status, err := read(w, r.WithContext(ctx))
	if err != nil {
		e.refuse(w, media, status, err)
		return
	}
	operation, problems, err := e.prepare(ctx, p)
	if err == nil && events && (!ok || isSubscription(operation)) {
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
		e.refuse(w, media, status, err)
		return
	}
	// A client that asks for plain JSON expects 200 for whatever is well-formed GraphQL (section 6.4.1).
	if media == mediaJSON && status == http.StatusBadRequest {
		status = http.StatusOK
	}
	write(w, media, status, answer)
}

// charge counts the request of a person, an API key or, for nobody, an address, and says in the headers what is left
// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/). It returns RateLimited.
func (e *Endpoint) charge(ctx context.Context, head http.Header) error {
	rate := quota.Rate{Name: "requests", Attempts: e.RequestRate, Window: time.Minute}
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

// prepare reads an operation and checks it: what it returns as problems is for the caller, who is told no more.
func (e *Endpoint) prepare(ctx context.Context, p *params) (operation *graphql.OperationContext, problems gqlerror.List, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked{value}
		}
	}()
	ctx = graphql.StartOperationTrace(ctx)
	operation, problems = e.exec.CreateOperationContext(ctx, &graphql.RawParams{
		Query: p.Query, OperationName: p.OperationName, Variables: p.Variables, Extensions: p.Extensions,
	})
	if len(problems) == 0 {
		problems = checkRoot(operation)
	}
	if len(problems) > 0 {
		problems = e.exec.DispatchError(graphql.WithOperationContext(ctx, operation), problems).Errors
	}
	return operation, problems, nil
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
			"or by server-sent events: POST with Accept: text/event-stream.")
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
func read(w http.ResponseWriter, r *http.Request) (p *params, status int, err error) {
	if r.Method == http.MethodPost {
		p, status, err = readBody(w, r)
	} else {
		p, status, err = readQuery(r)
	}
	if err == nil && p.Query == "" {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The request has no query.")
	}
	return p, status, err
}

func readBody(w http.ResponseWriter, r *http.Request) (*params, int, error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, http.StatusUnsupportedMediaType, errs.New(errs.BadRequest, "The body must be sent as application/json in UTF-8.")
	}
	limit := int64(maxBody)
	if _, err := account.Current(r.Context()); err != nil {
		limit = maxAnonymousBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, http.StatusRequestEntityTooLarge, errs.New(errs.TooLarge,
			"The body is larger than %d bytes, which is the most: %d without log-in, %d with.", limit, maxAnonymousBody, maxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body did not arrive whole.").Because(err)
	}
	var p params
	if err := unmarshal(body, &p); err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body must be one JSON object: query is a string, "+
			"operationName a string or null, variables and extensions are objects or null.").Because(err)
	}
	return &p, 0, nil
}

func readQuery(r *http.Request) (*params, int, error) {
	query := r.URL.Query()
	p := &params{Query: query.Get("query"), OperationName: query.Get("operationName")}
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
func (e *Endpoint) refuse(w http.ResponseWriter, media string, status int, err error) {
	shown := e.present(context.Background(), err)
	if wait, ok := shown.Extensions["retryAfter"].(int); ok {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	write(w, media, status, result{Errors: gqlerror.List{shown}})
}

func write(w http.ResponseWriter, media string, status int, answer result) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // the executor's own JSON does not parse
	}
	h := w.Header()
	h.Set("Content-Type", media+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept, Authorization")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone cannot be told
}
