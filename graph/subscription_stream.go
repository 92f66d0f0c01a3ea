package graph

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
)

const (
	// maxStreams and maxStreamsOfActor bound the subscriptions of a node, and those at it of a person, an API key or an address.
	maxStreams        = 2000
	maxStreamsOfActor = 100
	// writtenWithin bounds one write to a client, and so how long one that does not read is waited for.
	writtenWithin = 20 * time.Second
	// heardEvery is how often a client hears that its connection stands.
	heardEvery = 15 * time.Second
)

// stream is a subscription that is being answered.
type stream struct {
	// authorization is what the caller has proved themselves with.
	authorization string
	// running is done when the subscription's source has ended, and ended says why.
	running sync.WaitGroup
	ended   error
}

type streamKey struct{}

func streamOf(ctx context.Context) *stream { return ctx.Value(streamKey{}).(*stream) }

// lasting is the context of a request for who is logged in, without the deadline of an operation.
func lasting(request, authenticated context.Context) context.Context {
	if actor, err := account.Current(authenticated); err == nil {
		return account.WithActor(request, actor)
	}
	return request
}

// isSubscription says so of an operation that may have problems.
func isSubscription(operation *graphql.OperationContext) bool {
	return operation != nil && operation.Operation != nil && operation.Operation.Operation == ast.Subscription
}

// checkRoot refuses a subscription to anything but one field: what the GraphQL library lets through, and breaks at.
func checkRoot(operation *graphql.OperationContext) gqlerror.List {
	if !isSubscription(operation) {
		return nil
	}
	fields := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Subscription"})
	if len(fields) != 1 || strings.HasPrefix(fields[0].Name, "__") {
		return gqlerror.List{refused(errs.BadRequest, "A subscription asks for exactly one field, and that is not about the schema.")}
	}
	return nil
}

// answerAll executes a prepared operation, and sends all of its results: that of a query or a mutation, those of a
// subscription until it ends. It calls started once there may be results. What it returns has ended the operation; an
// operation that has come to its end, or that nobody wants any more, returns nothing.
func (e *Endpoint) answerAll(
	ctx context.Context, authorization string, operation *graphql.OperationContext, started func(), send func(result) error,
) (ended gqlerror.List) {
	defer func() { observedIn(ctx).answered(ended, nil) }()
	defer func() {
		if value := recover(); value != nil {
			ended = gqlerror.List{e.present(context.Background(), panicked{value})}
		}
	}()
	if !isSubscription(operation) {
		started()
		ctx, cancel := context.WithTimeout(ctx, e.Bounds.Deadline)
		defer cancel()
		answer, err := e.dispatch(e.withLoaders(ctx), operation)
		if err != nil {
			return gqlerror.List{e.present(context.Background(), err)}
		}
		_ = send(answer) // a client that has gone cannot be told
		return nil
	}
	leave, err := e.streams.take(subject(ctx))
	if err != nil {
		return gqlerror.List{e.present(ctx, err)}
	}
	defer leave()
	return e.follow(ctx, authorization, operation, started, send)
}

// cutShort says that an operation has ended, with these errors, because the server stops: the client is not told of an end, and asks
// again, somewhere else. A query or a mutation whose answer was sent is over.
func (e *Endpoint) cutShort(operation *graphql.OperationContext, ended gqlerror.List) bool {
	return e.ending.Err() != nil && (len(ended) > 0 || isSubscription(operation))
}

// follow sends the events of a subscription.
func (e *Endpoint) follow(
	ctx context.Context, authorization string, operation *graphql.OperationContext, started func(), send func(result) error,
) gqlerror.List {
	s := &stream{authorization: authorization}
	ctx, cancel := context.WithCancel(context.WithValue(e.withLoaders(ctx), streamKey{}, s))
	defer s.running.Wait()
	defer cancel()
	responses, ctx := e.exec.DispatchOperation(ctx, operation)
	started()
	field := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Subscription"})[0]
	for {
		// The library forgets where in the answer the event is.
		response := responses(graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Subscription", Field: field}))
		if response == nil || ctx.Err() != nil { // an event that was cut short is told again by the cursor before it
			break
		}
		if response.Data == nil { // there is no subscription
			return response.Errors
		}
		if send(result{Errors: response.Errors, Data: response.Data, Extensions: response.Extensions}) != nil {
			return nil
		}
	}
	cancel()
	s.running.Wait()
	if s.ended == nil || errors.Is(s.ended, context.Canceled) {
		return nil
	}
	shown := e.present(context.WithoutCancel(ctx), s.ended)
	if r, ok := errors.AsType[resumable](s.ended); ok && r.after != "" {
		shown.Extensions["after"] = r.after
	}
	return gqlerror.List{shown}
}

// Run waits until the context ends, and then ends all streams: a server that stops waits for them, or does not know of
// them. It returns nil.
func (e *Endpoint) Run(ctx context.Context) error {
	<-ctx.Done()
	e.end()
	e.sockets.close()
	return nil
}

// whileServing is the context without its end, but for that of the server.
func (e *Endpoint) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(e.ending, end)
	return ctx, func() {
		stop()
		end()
	}
}

// seats bound how many are there at once, in all and for one subject.
type seats struct {
	most, mostOfOne int

	mu     sync.Mutex
	closed bool
	taken  int
	of     map[string]int
	all    sync.WaitGroup
}

// take takes a seat until leave is called. It returns RateLimited, or Unavailable when the server stops.
func (s *seats) take(subject string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errStopping()
	case s.of[subject] >= s.mostOfOne:
		return nil, errs.New(errs.RateLimited, "These are too many at once: you may have %d here. End one of them first.", s.mostOfOne)
	case s.taken >= s.most:
		return nil, errs.New(errs.RateLimited, "The server has as many as it can have. Try again later.").After(time.Minute)
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.taken++
	s.of[subject]++
	s.all.Add(1)
	return sync.OnceFunc(func() { s.leave(subject) }), nil
}

func errStopping() error {
	return errs.New(errs.Unavailable, "The server is stopping. Try again: another one answers.")
}

func (s *seats) leave(subject string) {
	defer s.all.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[subject]--; s.of[subject] == 0 {
		delete(s.of, subject)
	}
}

// close gives no seats any more, and waits until all have been left.
func (s *seats) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.all.Wait()
}
