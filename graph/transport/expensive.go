package transport

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/admission"
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

// turnKey is the context key of the function that ends the turn of an operation.
type turnKey struct{}

// enterExpensive waits for the turn of an expensive operation, until leave is called. The context
// is that of the operation. It returns RateLimited or Unavailable.
func (h *Handler) enterExpensive(
	ctx context.Context, operation *graphql.OperationContext,
) (within context.Context, leave func(), err error) {
	b := limit.BillOf(operation)
	if b == nil || b.Cost < expensiveCost {
		return ctx, func() {}, nil
	}
	leave, err = h.expensive.Enter(ctx, callerOf(ctx).Owner, int64(1+b.Cost/pointsPerTurn))
	if err != nil {
		return ctx, nil, err
	}
	leave = sync.OnceFunc(leave)
	return context.WithValue(ctx, turnKey{}, leave), leave, nil
}

// EndTurn ends the turn of the operation of a context, if it has one: a resolver that waits for
// another server does not compute.
func EndTurn(ctx context.Context) {
	if leave, ok := ctx.Value(turnKey{}).(func()); ok {
		leave()
	}
}
