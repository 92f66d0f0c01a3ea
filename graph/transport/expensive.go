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
	expensiveCost = 100
	// expensivePerProcessor is how many of them are executed at once; one owner has half of them.
	// One of more than pointsPerTurn points counts as several.
	expensivePerProcessor = 4
	pointsPerTurn         = 1000
	// maxExpensiveWait bounds the wait for a turn.
	maxExpensiveWait = 5 * time.Second
)

// newExpensive returns the gate of expensive operations.
func newExpensive() *admission.Gate {
	capacity := int64(expensivePerProcessor * runtime.GOMAXPROCS(0))
	return admission.New(admission.Config{
		Name: "expensive operations", Capacity: capacity, Share: capacity / 2,
		Waiting: 200, Queue: 2000, MaxWait: maxExpensiveWait,
	})
}

// enterExpensive waits for the turn of an expensive operation, until leave is called. It returns
// RateLimited or Unavailable.
func (h *Handler) enterExpensive(ctx context.Context, operation *graphql.OperationContext) (leave func(), err error) {
	b := limit.BillOf(operation)
	if b == nil || b.Cost < expensiveCost {
		return func() {}, nil
	}
	return h.expensive.Enter(ctx, callerOf(ctx).Owner, int64(1+b.Cost/pointsPerTurn))
}
