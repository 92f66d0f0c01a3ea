package transport

import (
	"context"
	"runtime"
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

// newExpensive returns the queue of expensive operations.
func newExpensive() *admission.Queue {
	capacity := int64(expensivePerProcessor * runtime.GOMAXPROCS(0))
	return admission.New(admission.Config{
		Name: "expensive operations", Capacity: capacity, Share: max(1, capacity/ownerDivisor),
		Waiting: 200, AllWaiting: 2000, MaxWait: maxExpensiveWait,
	})
}

// turnKey is the context key of the turn of an operation.
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
	t, err := h.expensive.Enter(ctx, int64(1+b.Cost/pointsPerTurn), callerOf(ctx).Owner)
	return context.WithValue(ctx, turnKey{}, t), t.Leave, err
}

// EndTurn ends the turn of the operation of a context, if it has one, while a resolver waits for
// another server and does not compute. Then call resume, see admission.Turn.
func EndTurn(ctx context.Context) (resume func()) {
	t, _ := ctx.Value(turnKey{}).(*admission.Turn)
	again := t.Suspend()
	return func() { again(ctx) }
}
