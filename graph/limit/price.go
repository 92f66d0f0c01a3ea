package limit

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/99designs/gqlgen/graphql"
)

// MaxSize bounds the number of items in the cost of a list: resolvers refuse larger lists.
const MaxSize = 1000

// priced is a schema with the costs that its directives @cost and @listSize declare.
type priced struct {
	graphql.ExecutableSchema
	prices map[fieldName]price
}

type fieldName struct{ object, field string }

// price has the arguments of the directives of a field.
type price struct {
	Weight, Free, AssumedSize int
	SlicingArguments          []string

	// sizeOf replaces the assumed size by one that depends on arguments; may be nil.
	sizeOf func(arguments map[string]any) int
}

// undeclared is the price of a field without directives.
var undeclared = price{Weight: 1, AssumedSize: 1}

// Sizes are the usual sizes of lists that depend on an argument which is no number, by Type.field.
type Sizes map[string]func(arguments map[string]any) int

// mutationWeight is the cost of a mutation that declares none: it runs a transaction.
const mutationWeight = 10

// WithDeclaredCosts returns the schema with the costs that its directives and sizes declare. The
// complexity function of a field receives this cost instead of that of its selection, and adds that
// of the arguments' content.
func WithDeclaredCosts(schema graphql.ExecutableSchema, sizes Sizes) graphql.ExecutableSchema {
	p := priced{schema, map[fieldName]price{}}
	for _, object := range schema.Schema().Types {
		for _, field := range object.Fields {
			declared := undeclared
			declared.sizeOf = sizes[object.Name+"."+field.Name]
			if object == schema.Schema().Mutation && field.Directives.ForName("cost") == nil {
				declared.Weight = mutationWeight
			}
			for _, name := range []string{"cost", "listSize"} {
				d := field.Directives.ForName(name)
				if d == nil {
					continue
				}
				text, err := json.Marshal(d.ArgumentMap(nil))
				if err == nil {
					err = json.Unmarshal(text, &declared)
				}
				if err != nil {
					panic(fmt.Sprintf("@%s of %s.%s: %v", name, object.Name, field.Name, err))
				}
			}
			p.prices[fieldName{object.Name, field.Name}] = declared
		}
	}
	entities := p.prices[fieldName{"Query", "nodes"}]
	entities.SlicingArguments = []string{"representations"}
	p.prices[fieldName{"Query", "_entities"}] = entities // which has no directives: gqlgen declares it
	return p
}

// Complexity implements graphql.ExecutableSchema.
func (p priced) Complexity(
	ctx context.Context, object, field string, selection int, arguments map[string]any,
) (int, bool) {
	declared := p.priceOf(object, field).of(selection, arguments)
	if cost, ok := p.ExecutableSchema.Complexity(ctx, object, field, declared, arguments); ok {
		return cost, true
	}
	return declared, true
}

// priceOf returns the price of a field. Introspection has no price of its own.
func (p priced) priceOf(object, field string) price {
	if declared, ok := p.prices[fieldName{object, field}]; ok {
		return declared
	}
	return undeclared
}

// of returns the cost of a field whose selection costs so much for each item.
func (p price) of(selection int, arguments map[string]any) int {
	return p.Weight + p.size(arguments)*p.item(selection)
}

// item returns the cost of an item whose selection costs so much.
func (p price) item(selection int) int {
	if p.Free > 0 {
		selection = max(1, selection-p.Free)
	}
	return min(selection, maxCount)
}

// size returns the number of items that the arguments request.
func (p price) size(arguments map[string]any) int {
	for _, path := range p.SlicingArguments {
		var given any = arguments
		for name := range strings.SplitSeq(path, ".") {
			object, _ := given.(map[string]any)
			given = object[name]
		}
		if list := reflect.ValueOf(given); list.Kind() == reflect.Slice {
			return min(list.Len(), MaxSize)
		}
		if given != nil {
			n, _ := UnmarshalInt(given) // a single value is a list of one
			return min(max(n, 1), MaxSize)
		}
	}
	if p.sizeOf != nil {
		return p.sizeOf(arguments)
	}
	return p.AssumedSize
}
