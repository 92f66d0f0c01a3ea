package limit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Cost calculates the cost of operations from that of the schema's fields, and refuses those above
// Max with TooComplex. A request with the extension "cost": true gets its cost in the
// response's extension of the same name.
type Cost struct {
	Max int

	schema graphql.ExecutableSchema
}

// Bill is the cost of an operation, and the remaining budget of its caller.
type Bill struct {
	// Cost is the cost that is known before the operation is executed.
	Cost int
	// Work is the cost that became known while it was executed.
	Work atomic.Int64
	// Known is false if the budget is not limited or not available. Otherwise Remaining points are
	// left until ResetsAt.
	Known     bool
	Remaining int64
	ResetsAt  time.Time
}

// billKey is the key of an operation's Bill among its statistics; costExtension is the name of the
// extension.
const (
	billKey       = "bill"
	costExtension = "cost"
)

// BillOf returns the bill of an operation; nil if Cost has not accepted the operation.
func BillOf(operation *graphql.OperationContext) *Bill {
	b, _ := operation.Stats.GetExtension(billKey).(*Bill)
	return b
}

// SetBill sets the bill of an operation. Tests call it.
func SetBill(operation *graphql.OperationContext, b *Bill) { operation.Stats.SetExtension(billKey, b) }

// Total is the cost that the caller has been charged so far.
func (b *Bill) Total() int { return b.Cost + int(b.Work.Load()) }

func (*Cost) ExtensionName() string { return "CostLimit" }

func (c *Cost) Validate(schema graphql.ExecutableSchema) error {
	c.schema = schema
	return nil
}

func (c *Cost) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	cost := complexity.Calculate(ctx, c.schema, operation.Operation, operation.Variables)
	if cost > c.Max {
		return Refusal(errs.TooComplex, fmt.Sprintf(
			"The operation costs %d points. The maximum is %d. Request fewer fields or smaller pages.", cost, c.Max))
	}
	SetBill(operation, &Bill{Cost: max(cost, 1)}) // introspection has no cost of its own
	return nil
}

func (c *Cost) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	operation := graphql.GetOperationContext(ctx)
	b := BillOf(operation)
	if requested, _ := operation.Extensions[costExtension].(bool); !requested || response == nil || b == nil {
		return response
	}
	cost := map[string]any{
		"requested": b.Total(), "actual": c.actual(ctx, operation, response.Data) + int(b.Work.Load()),
		"remaining": nil, "resetsAt": nil,
	}
	if b.Known {
		cost["remaining"], cost["resetsAt"] = b.Remaining, b.ResetsAt
	}
	if response.Extensions == nil {
		response.Extensions = map[string]any{}
	}
	response.Extensions[costExtension] = cost
	return response
}

// actual returns the cost of a response: that of its operation if each page had as many items as
// the response has.
func (c *Cost) actual(ctx context.Context, operation *graphql.OperationContext, data json.RawMessage) int {
	var response any
	if json.Unmarshal(data, &response) != nil {
		return 0 // nothing was executed
	}
	p := pricer{ctx: ctx, schema: c.schema, fragments: operation.Doc.Fragments, variables: operation.Variables}
	return p.value([]ast.SelectionSet{operation.Operation.SelectionSet}, response)
}

// pricer calculates the cost of a response.
type pricer struct {
	ctx       context.Context
	schema    graphql.ExecutableSchema
	fragments ast.FragmentDefinitionList
	variables map[string]any
}

// value returns the cost of a value with these selections.
func (p pricer) value(selections []ast.SelectionSet, value any) (sum int) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			sum += p.value(selections, item)
		}
	case map[string]any:
		for name, fields := range collectFields(p.fragments, selections) {
			if child, ok := value[name]; ok {
				sum += p.field(fields, child)
			}
		}
	}
	return sum
}

// field returns the cost of a field and its value. A batch costs the mean of its results, since a
// part of each is free.
func (p pricer) field(fields []*ast.Field, value any) int {
	below := p.value(selectionsOf(fields), value)
	if payload, ok := value.(map[string]any); ok {
		results, ok := payload["results"].([]any)
		if ok && len(results) > 0 && fields[0].ObjectDefinition.Name == "Mutation" {
			return p.own(fields[0], (below+len(results)-1)/len(results))
		}
	}
	return p.own(fields[0], 0) + below
}

// own returns the cost of a field whose items cost as much as child.
func (p pricer) own(f *ast.Field, child int) int {
	cost, ok := p.schema.Complexity(p.ctx, f.ObjectDefinition.Name, f.Name, child, f.ArgumentMap(p.variables))
	if !ok || cost < 1 {
		return 1 + child
	}
	return cost
}
