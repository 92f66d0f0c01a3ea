package limit

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// testSchema is a schema without resolvers, whose field "searched" costs 20 more.
type testSchema struct{ schema *ast.Schema }

func (s testSchema) Schema() *ast.Schema { return s.schema }

func (testSchema) Complexity(_ context.Context, _, field string, declared int, _ map[string]any) (int, bool) {
	return declared + 20, field == "searched"
}

func (testSchema) Exec(context.Context) graphql.ResponseHandler { return nil }

// TestWithDeclaredCosts_PricesFields whose selection costs 10.
func TestWithDeclaredCosts_PricesFields(t *testing.T) {
	t.Parallel()
	schema := WithDeclaredCosts(testSchema{gqlparser.MustLoadSchema(&ast.Source{Input: `
		directive @cost(weight: Int! = 1, free: Int! = 0) on FIELD_DEFINITION
		directive @listSize(assumedSize: Int! = 20, slicingArguments: [String!]! = ["first"]) on FIELD_DEFINITION
		input Batch { ids: [ID!]! }
		type Query {
			plain: Int
			heavy: Int @cost(weight: 7)
			included: Int @cost(weight: 0, free: 9)
			row: Int @cost(weight: 2, free: 1000)
			page(first: Int): Int @listSize
			heavyPage(first: Int, last: Int): Int @cost(weight: 3) @listSize(slicingArguments: ["last", "first"])
			some: Int @listSize(assumedSize: 3)
			byUnit(unit: String): Int
			batch(input: Batch!): Int @cost(free: 4) @listSize(slicingArguments: ["input.ids"])
			searched: Int @cost(weight: 5)
		}`})}, Sizes{"Query.byUnit": func(arguments map[string]any) int {
		return map[any]int{"HOUR": 200}[arguments["unit"]]
	}})
	type arguments = map[string]any
	for _, c := range []struct {
		field     string
		arguments arguments
		want      int
	}{
		{"plain", nil, 1 + 10},
		{"heavy", nil, 7 + 10},
		{"included", nil, 1},
		{"row", nil, 2 + 1},
		{"page", nil, 1 + 20*10},
		{"page", arguments{"first": nil}, 1 + 20*10},
		{"page", arguments{"first": int64(2)}, 1 + 2*10},
		{"page", arguments{"first": json.Number("3")}, 1 + 3*10},
		{"page", arguments{"first": int64(-5)}, 1 + 10},
		{"page", arguments{"first": int64(1 << 31)}, 1 + 10}, // no Int: it is refused
		{"page", arguments{"first": int64(5000)}, 1 + MaxSize*10},
		{"heavyPage", arguments{"first": int64(4), "last": int64(2)}, 3 + 2*10},
		{"heavyPage", arguments{"first": int64(4), "last": nil}, 3 + 4*10},
		{"some", nil, 1 + 3*10},
		{"byUnit", arguments{"unit": "HOUR"}, 1 + 200*10},
		{"batch", arguments{"input": arguments{"ids": []any{"a", "b"}}}, 1 + 2*6},
		{"batch", arguments{"input": arguments{"ids": []string{"a", "b", "c"}}}, 1 + 3*6},
		{"batch", arguments{"input": arguments{"ids": "a"}}, 1 + 6},
		{"batch", arguments{"input": arguments{"ids": []any{}}}, 1},
		{"batch", arguments{"input": arguments{"ids": make([]any, 5000)}}, 1 + MaxSize*6},
		{"searched", nil, 5 + 10 + 20},
	} {
		if got, ok := schema.Complexity(t.Context(), "Query", c.field, 10, c.arguments); got != c.want || !ok {
			t.Errorf("%s %v costs %d, want %d", c.field, c.arguments, got, c.want)
		}
	}
	if got, _ := schema.Complexity(t.Context(), "Query", "page", int(^uint(0)>>1), nil); got != 1+20*maxCount {
		t.Errorf("a page of a huge selection costs %d", got)
	}
}
