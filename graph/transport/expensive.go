package transport

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// expensiveCost is the cost from which an operation takes turns with others: such operations
	// keep the processors from redirects if many are executed at once.
	expensiveCost = 25
	// expensivePerProcessor is how many of them are executed at once. One owner has a quarter of
	// them, so that half of the processors is free of what it computes. An operation of more than
	// pointsPerTurn points counts as several.
	expensivePerProcessor = 2
	ownerDivisor          = 4
	pointsPerTurn         = 1000
	// maxExpensiveWait bounds the wait for a turn.
	maxExpensiveWait = 10 * time.Second
)

// newExpensive returns the gate of expensive operations.
func newExpensive() *admission.Gate {
	capacity := int64(expensivePerProcessor * runtime.GOMAXPROCS(0))
	return admission.New(admission.Config{
		Name: "expensive operations", Capacity: capacity, Share: max(1, capacity/ownerDivisor),
		Waiting: 200, Queue: 2000, MaxWait: maxExpensiveWait,
	})
}

// turnKey is the context key of the turn of an operation.
type turnKey struct{}

// turn is that of an expensive operation.
type turn struct {
	gate  *admission.Gate
	owner string
	units int64

	mu     sync.Mutex
	leave  func() // nil while the operation has no turn
	isOver bool   // the operation has ended, and has no further turn
}

// enterExpensive waits for the turn of an expensive operation, until leave is called. The context
// is that of the operation. It returns RateLimited or Unavailable.
func (h *Handler) enterExpensive(
	ctx context.Context, operation *graphql.OperationContext,
) (within context.Context, leave func(), err error) {
	b := limit.BillOf(operation)
	if b == nil || b.Cost < expensiveCost {
		return ctx, func() {}, nil
	}
	t := &turn{gate: h.expensive, owner: callerOf(ctx).Owner, units: int64(1 + b.Cost/pointsPerTurn)}
	if err := t.enter(ctx); err != nil {
		return ctx, nil, err
	}
	return context.WithValue(ctx, turnKey{}, t), t.finish, nil
}

func (t *turn) enter(ctx context.Context) error {
	leave, err := t.gate.Enter(ctx, t.owner, t.units)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver {
		leave()
		return nil
	}
	t.leave = leave
	return nil
}

// finish ends the last turn of an operation.
func (t *turn) finish() {
	t.mu.Lock()
	t.isOver = true
	t.mu.Unlock()
	t.end()
}

// end ends a turn, and reports whether there was one.
func (t *turn) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leave == nil {
		return false
	}
	t.leave()
	t.leave = nil
	return true
}

// EndTurn ends the turn of the operation of a context, if it has one, while a resolver waits for
// another server and does not compute. Then call resume, which waits for the next turn. It refuses
// nothing, because the resolver has had its effect; without a turn it returns only when the context
// has ended.
func EndTurn(ctx context.Context) (resume func()) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok || !t.end() {
		return func() {}
	}
	return func() {
		for {
			err := t.enter(ctx)
			if err == nil || poll.Wait(ctx, errs.From(err).Retry()) != nil {
				return
			}
		}
	}
}
