package transport

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

const (
	// maxStreams bounds the subscriptions of a node, maxStreamsOfCaller and maxStreamsOfGroup those
	// of one caller and one group at a node.
	maxStreams         = 2000
	maxStreamsOfCaller = 100
	maxStreamsOfGroup  = 400
	// writeDeadline bounds one write to a client, and so the wait for a client that does not read.
	writeDeadline = 20 * time.Second
	// heartbeatInterval is the longest time without a byte for the client.
	heartbeatInterval = 15 * time.Second
)

// Stream is a subscription that is being served.
type Stream struct {
	// Authorization is the Authorization header of its caller, to be authenticated again while it
	// lasts.
	Authorization string

	running sync.WaitGroup
	err     error
}

type streamKey struct{}

// StreamOf returns the stream of a subscription resolver's context.
func StreamOf(ctx context.Context) *Stream { return ctx.Value(streamKey{}).(*Stream) }

// Go runs the source of the stream's events. The stream ends after it, with its error: of a
// Resumable, the client gets the cursor.
func (s *Stream) Go(source func() error) {
	s.running.Go(func() { s.err = source() })
}

// Resumable is the error of a stream that can be resumed after a cursor.
type Resumable struct {
	error
	After string
}

// NewResumable returns err with a cursor.
func NewResumable(err error, after string) Resumable { return Resumable{err, after} }

func (r Resumable) Unwrap() error { return r.error }

// checkSubscription refuses a subscription to anything but one field: the GraphQL library accepts
// it, and panics.
func checkSubscription(operation *graphql.OperationContext) gqlerror.List {
	if !isKind(operation, ast.Subscription) {
		return nil
	}
	fields := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Subscription"})
	if len(fields) != 1 || strings.HasPrefix(fields[0].Name, "__") {
		return gqlerror.List{limit.Refusal(errs.BadRequest,
			"A subscription must have exactly one root field, which is not an introspection field.")}
	}
	return nil
}

// respond executes a prepared operation and sends its results: one of a query or a mutation, all of
// a subscription. It calls started before the first. It returns the errors that ended the
// operation, and none if it completed or the client has gone. ctx carries the caller, and no
// deadline.
func (h *Handler) respond(
	ctx context.Context, authorization string, operation *graphql.OperationContext,
	started func(), send func(result) error,
) (ended gqlerror.List) {
	defer func() { observedIn(ctx).finished(ended, nil) }()
	defer h.recoverWith(&ended)
	if !isKind(operation, ast.Subscription) {
		started()
		ctx, cancel := context.WithTimeout(ctx, h.config.Bounds.Deadline)
		defer cancel()
		answer, err := h.dispatch(ctx, operation)
		if err != nil {
			return gqlerror.List{h.present(context.Background(), err)}
		}
		_ = send(answer) // the client may be gone
		return nil
	}
	release, err := h.streams.acquire(callerOf(ctx))
	if err != nil {
		return gqlerror.List{h.present(ctx, err)}
	}
	defer release()
	return h.follow(ctx, authorization, operation, started, send)
}

// interrupted reports whether an operation ended, with these errors, because the server stops. The
// client receives no completion, and retries on another node.
func (h *Handler) interrupted(operation *graphql.OperationContext, ended gqlerror.List) bool {
	return h.stopping.Err() != nil && (len(ended) > 0 || isKind(operation, ast.Subscription))
}

// follow sends the events of a subscription.
func (h *Handler) follow(
	ctx context.Context, authorization string, operation *graphql.OperationContext,
	started func(), send func(result) error,
) gqlerror.List {
	s := &Stream{Authorization: authorization}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, streamKey{}, s))
	defer s.running.Wait()
	defer cancel()
	responses, ctx := h.exec.DispatchOperation(ctx, operation)
	started()
	field := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Subscription"})[0]
	for {
		// The library omits the path of the event within the response.
		root := &graphql.FieldContext{Object: "Subscription", Field: field}
		response := responses(graphql.WithFieldContext(ctx, root))
		if response == nil || ctx.Err() != nil { // the cursor before an interrupted event repeats it
			break
		}
		if response.Data == nil { // the resolver refused the subscription
			return response.Errors
		}
		if send(resultOf(response)) != nil {
			return nil
		}
	}
	cancel()
	s.running.Wait()
	if s.err == nil || errors.Is(s.err, context.Canceled) {
		return nil
	}
	shown := h.present(context.WithoutCancel(ctx), s.err)
	if r, ok := errors.AsType[Resumable](s.err); ok && r.After != "" {
		shown.Extensions["after"] = r.After
	}
	return gqlerror.List{shown}
}

// whileServing returns a context that also ends when the server stops.
func (h *Handler) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.stopping, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// heartbeat calls send at intervals until the context ends, or until send fails: it returns its
// error.
func heartbeat(ctx context.Context, send func() error) error {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := send(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// slots bound concurrent streams or connections: in total, of one caller and of one group.
type slots struct {
	max, maxOfCaller, maxOfGroup int64

	mu     sync.Mutex
	closed bool
	taken  admission.Queue
	all    sync.WaitGroup
}

// acquire occupies a slot until release is called. It returns RateLimited, or Unavailable when the
// server stops.
func (s *slots) acquire(c Caller) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStopping()
	}
	bounds := []admission.Bound{{Kind: "caller", Subject: c.Subject, Max: s.maxOfCaller}}
	for _, g := range c.Groups {
		bounds = append(bounds, admission.Bound{Kind: "group", Subject: g.Subject, Max: s.maxOfGroup})
	}
	bounds = append(bounds, admission.Bound{Kind: "node", Max: s.max})
	for _, b := range bounds {
		if s.taken.Used(b) >= b.Max {
			return nil, errFull(b)
		}
	}
	s.taken.Take(1, bounds...)
	s.all.Add(1)
	return sync.OnceFunc(func() {
		s.taken.Give(1, bounds...)
		s.all.Done()
	}), nil
}

// errFull is the error about a bound without a slot left.
func errFull(b admission.Bound) error {
	if b.Kind == "node" {
		return errs.New(errs.RateLimited,
			"The server has reached its maximum number of subscriptions or connections. Try again later.").
			After(time.Minute)
	}
	owners := ""
	if b.Kind == "group" {
		owners = " of your account, workspace or network"
	}
	return errs.New(errs.RateLimited, "Too many concurrent subscriptions or connections%s. The maximum is %d. "+
		"Close one first.", owners, b.Max).After(time.Minute)
}

func errStopping() error {
	return errs.New(errs.Unavailable, "The server is shutting down. Try again: another node responds.")
}

// close refuses new users and waits until all slots are released.
func (s *slots) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.all.Wait()
}
