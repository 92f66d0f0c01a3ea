package limit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Cost calculates the cost of operations from that of the schema's fields, and refuses those above
// Max with TooComplex.
type Cost struct {
	Max int
	// Charge takes points from the caller's budget for items of lists beyond the assumed sizes. It
	// returns RateLimited.
	Charge func(ctx context.Context, points int) error

	schema graphql.ExecutableSchema
}

// Bill is the cost of an operation, and the remaining budget of its caller.
type Bill struct {
	// Cost is the cost that is known before the operation is executed.
	Cost int
	// Work is the cost that became known while it was executed.
	Work atomic.Int64
	// Allowance is the caller's budget after Cost was taken from it.
	Allowance Allowance
	// ResetsAt is when the whole budget is available again.
	ResetsAt time.Time

	// lists counts the items of the operation's lists; nil: none are charged.
	lists *calculator
}

// Allowance is the state of a subject's budget.
type Allowance struct {
	// Known is false if the budget is not limited, or its state is not available.
	Known bool
	// Limit is the budget of a Window. Left remains of it, and Reset is the time until it is full
	// again.
	Limit, Left   int64
	Window, Reset time.Duration
	// OfGroup says that the budget of a group was exceeded, not the caller's.
	OfGroup bool
}

// billKey is the key of an operation's Bill among its statistics.
const billKey = "bill"

// BillOf returns the bill of an operation; nil if Cost has not accepted the operation.
func BillOf(operation *graphql.OperationContext) *Bill {
	b, _ := operation.Stats.GetExtension(billKey).(*Bill)
	return b
}

// SetBill sets the bill of an operation. Tests call it.
func SetBill(operation *graphql.OperationContext, b *Bill) { operation.Stats.SetExtension(billKey, b) }

// Left is the budget that remains after all that the operation was charged so far.
func (b *Bill) Left() int64 { return max(0, b.Allowance.Left-b.Work.Load()) }

func (*Cost) ExtensionName() string { return "CostLimit" }

func (c *Cost) Validate(schema graphql.ExecutableSchema) error {
	c.schema = schema
	return nil
}

func (c *Cost) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	lists := newCalculator(ctx, c.schema, operation.Variables)
	cost := lists.operation(operation.Operation)
	if cost > c.Max {
		return Refusal(errs.TooComplex, fmt.Sprintf(
			"The operation costs %d points. The maximum is %d. Request fewer fields or smaller pages.", cost, c.Max))
	}
	SetBill(operation, &Bill{Cost: max(cost, 1), lists: lists}) // introspection has no cost of its own
	return nil
}
