package limit

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// calculator calculates the cost of an operation before it is executed, and then that of the items
// of its lists beyond the sizes that were assumed.
type calculator struct {
	ctx       context.Context
	schema    graphql.ExecutableSchema
	prices    priced
	variables map[string]any
	// lists has the lists of objects of the operation. It does not change while it is executed.
	lists map[*ast.Field]*list
	// refusal is the error of the first charge that exceeded the budget: later ones are not tried.
	refusal atomic.Pointer[error]
}

// list counts the items of a list in all places of the response. A short list pays for a long one.
type list struct {
	mu                sync.Mutex
	charged, returned int
}

func newCalculator(ctx context.Context, schema graphql.ExecutableSchema, variables map[string]any) *calculator {
	prices, _ := schema.(priced)
	return &calculator{
		ctx: ctx, schema: schema, prices: prices, variables: variables, lists: map[*ast.Field]*list{},
	}
}

// operation returns the cost of an operation.
func (c *calculator) operation(o *ast.OperationDefinition) int {
	once, each := c.selection(o.SelectionSet, 1, 1)
	return once + each
}

// selection returns the cost of a selection, which is executed in a number of places. The fields of
// a connection are executed once in each, but edges and nodes for each of the items.
func (c *calculator) selection(set ast.SelectionSet, places, items int) (once, each int) {
	for _, selected := range set {
		if !c.includes(selected) {
			continue
		}
		var ofPage, ofItem int
		switch selected := selected.(type) {
		case *ast.Field:
			if isOncePerPage(selected) {
				ofPage = c.field(selected, places)
			} else {
				ofItem = c.field(selected, min(places*items, maxCount))
			}
		case *ast.FragmentSpread:
			ofPage, ofItem = c.selection(selected.Definition.SelectionSet, places, items)
		case *ast.InlineFragment:
			ofPage, ofItem = c.selection(selected.SelectionSet, places, items)
		}
		once, each = min(once+ofPage, maxCount), min(each+ofItem, maxCount)
	}
	return once, each
}

// includes reports whether the directives of a field or fragment let it be executed.
func (c *calculator) includes(selected ast.Selection) bool {
	var directives ast.DirectiveList
	switch selected := selected.(type) {
	case *ast.Field:
		directives = selected.Directives
	case *ast.FragmentSpread:
		directives = selected.Directives
	case *ast.InlineFragment:
		directives = selected.Directives
	}
	skip, include := directives.ForName("skip"), directives.ForName("include")
	return (skip == nil || skip.ArgumentMap(c.variables)["if"] != true) &&
		(include == nil || include.ArgumentMap(c.variables)["if"] != false)
}

// isOncePerPage reports whether a field describes a page of a connection, and not its items.
func isOncePerPage(f *ast.Field) bool {
	return isConnection(f.ObjectDefinition) && f.Name != "edges" && f.Name != "nodes"
}

func isConnection(d *ast.Definition) bool { return d != nil && d.Fields.ForName("edges") != nil }

// field returns the cost of a field in one of its places, and counts the items that all of them are
// charged for.
func (c *calculator) field(f *ast.Field, places int) int {
	of := f.Definition.Type.Name()
	if of == "__Schema" || f.Name == "__typename" && f.Alias == f.Name { // known without the stores, and there once
		return 0
	}
	arguments := f.ArgumentMap(c.variables)
	size := c.prices.priceOf(f.ObjectDefinition.Name, f.Name).size(arguments)
	once, each := c.selection(f.SelectionSet, places, size)
	isList := f.Definition.Type.Elem != nil && len(f.SelectionSet) > 0
	if isList || isConnection(c.schema.Schema().Types[of]) {
		each = max(each, 1) // its items are read, whatever is selected
	}
	if isList {
		c.list(f).add(places * size)
	}
	return once + c.own(f, each, arguments)
}

// own returns the cost of a field whose items cost as much as each: in an interface, that of the
// most expensive type.
func (c *calculator) own(f *ast.Field, each int, arguments map[string]any) (cost int) {
	for _, object := range c.schema.Schema().GetPossibleTypes(f.ObjectDefinition) {
		declared, ok := c.schema.Complexity(c.ctx, object.Name, f.Name, each, arguments)
		if !ok || declared < 1 {
			declared = 1 + each
		}
		cost = max(cost, declared)
	}
	return min(cost, maxCount)
}

// list returns the list of a field. It adds those of an operation that was not executed yet.
func (c *calculator) list(f *ast.Field) *list {
	known := c.lists[f]
	if known == nil {
		known = &list{}
		c.lists[f] = known
	}
	return known
}

func (l *list) add(items int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charged = min(l.charged+items, maxCount)
}

// excess counts returned items, and returns how many of them the operation has not been charged for.
func (l *list) excess(items int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returned += items
	more := max(0, l.returned-l.charged)
	l.charged += more
	return more
}

// excess returns the cost of the items of a value that the operation has not been charged for, if it
// is a list of objects. Their own lists are assumed to have the usual sizes again.
func (c *calculator) excess(f graphql.CollectedField, value any) int {
	known := c.lists[f.Field]
	if known == nil {
		return 0
	}
	items := reflect.ValueOf(value)
	if items.Kind() != reflect.Slice { // null
		return 0
	}
	more := known.excess(items.Len())
	if more == 0 {
		return 0
	}
	once, each := c.selection(f.Selections, more, 1)
	return more * c.prices.priceOf(f.ObjectDefinition.Name, f.Name).item(max(once+each, 1))
}

// InterceptOperation charges the caller for items of lists beyond the assumed sizes when they are
// returned. If the budget is exceeded, lists of a query that can be null are: what a mutation has
// changed, and what holds other parts of an answer, is returned. A subscription is charged for a
// number of events, whatever they contain.
func (c *Cost) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	b := BillOf(operation)
	if b == nil || b.lists == nil || len(b.lists.lists) == 0 || operation.Operation.Operation == ast.Subscription {
		return next(ctx)
	}
	inner, isQuery := operation.ResolverMiddleware, operation.Operation.Operation == ast.Query
	operation.ResolverMiddleware = func(ctx context.Context, resolve graphql.Resolver) (any, error) {
		value, err := inner(ctx, resolve)
		if err != nil {
			return value, err
		}
		field := graphql.GetFieldContext(ctx).Field
		points := b.lists.excess(field, value)
		if points == 0 {
			return value, nil
		}
		refusal := b.lists.refusal.Load()
		if refusal == nil {
			if err := c.Charge(ctx, points); err != nil {
				refusal = &err
				b.lists.refusal.Store(refusal)
			}
		}
		if refusal != nil && isQuery && !field.Definition.Type.NonNull {
			return nil, *refusal
		}
		return value, nil
	}
	return next(ctx)
}
