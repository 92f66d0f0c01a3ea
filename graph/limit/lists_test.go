package limit

import (
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// shelves is a schema with lists in lists.
const shelves = `
	directive @cost(weight: Int! = 1, free: Int! = 0) on FIELD_DEFINITION
	directive @listSize(assumedSize: Int! = 20, slicingArguments: [String!]! = ["first"]) on FIELD_DEFINITION
	type Query {
		shelves(first: Int): ShelfConnection @listSize
		first: Named
	}
	type ShelfConnection { edges: [ShelfEdge!]! nodes: [Shelf!]! totalCount: Int @cost(weight: 20) pageInfo: Info }
	type ShelfEdge { node: Shelf! }
	type Info { more: Boolean }
	interface Named { name: String }
	type Shelf implements Named {
		name: String @cost(weight: 5)
		labels: [String!]!
		books: [Book!]! @listSize(assumedSize: 3)
	}
	type Book implements Named { name: String authors: [Author!]! rare: [Author!]! @listSize(assumedSize: 0) }
	type Author { name: String }`

// calculate returns the cost of a query, and the calculator.
func calculate(t *testing.T, query string) (*calculator, *ast.OperationDefinition, int) {
	t.Helper()
	schema := WithDeclaredCosts(testSchema{gqlparser.MustLoadSchema(&ast.Source{Input: shelves})}, nil)
	doc, err := gqlparser.LoadQuery(schema.Schema(), query)
	if err != nil {
		t.Fatal(err)
	}
	c := newCalculator(t.Context(), schema, nil)
	return c, doc.Operations[0], c.operation(doc.Operations[0])
}

func TestCalculator_MultipliesTheItemsOfPages(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		`{ shelves(first: 7) { nodes { labels } } }`:                                       1 + 7*(1+1),
		`{ shelves(first: 7) { edges { node { labels } } totalCount pageInfo { more } } }`: 1 + 7*(1+1+1) + 20 + 2,
		`{ shelves(first: 7) { ...F nodes { labels } } } fragment F on ShelfConnection {
			totalCount ... on ShelfConnection { nodes { labels } __typename } }`: 1 + 20 + 7*(2+2),
		`{ shelves(first: 7) { totalCount } }`:                                    1 + 7 + 20, // which reads the page
		`{ shelves { nodes { books { name authors { name } rare { name } } } } }`: 1 + 20*(1+1+3*(1+(1+1)+1)),
		`{ first { name } }`: 1 + 5, // of the most expensive type
		`{ shelves(first: 7) { nodes { __typename labels @skip(if: true) }
			totalCount @include(if: false) } }`: 1 + 7*(1+1),
		`{ shelves(first: 7) { nodes { books { __typename } } } }`: 1 + 7*(1+1+3), // each is read
		`{ first { a: __typename b: __typename __typename } }`:     1 + 2,         // aliases make the answer longer
		`{ first { name } ...F @skip(if: true) ... @include(if: false) { first { name } } }
			fragment F on Query { first { name } }`: 1 + 5,
		`{ first @include(if: true) { name @skip(if: false) } }`: 1 + 5,
		`{ __schema { types { name } } }`:                        0,
		`{ __type(name: "Shelf") { name } }`:                     1 + 1,
	} {
		if _, _, got := calculate(t, query); got != want {
			t.Errorf("%s costs %d, want %d", query, got, want)
		}
	}
}

// collected returns the field of a query at a path, as it is executed.
func collected(o *ast.OperationDefinition, path ...string) graphql.CollectedField {
	field := graphql.CollectedField{Selections: o.SelectionSet}
	for _, name := range path {
		for _, f := range collectFields(nil, []ast.SelectionSet{field.Selections})[name] {
			if field.Field == nil || field.Alias != name {
				field = graphql.CollectedField{Field: f}
			}
			field.Selections = append(field.Selections, f.SelectionSet...)
		}
	}
	return field
}

// TestCalculator_ChargesLongerLists: the items of all lists of a field count together, and those that
// are charged later have lists of the usual size.
func TestCalculator_ChargesLongerLists(t *testing.T) {
	t.Parallel()
	books, authors := []string{"shelves", "nodes", "books"}, []string{"shelves", "nodes", "books", "authors"}
	const plain = `{ shelves(first: 2) { nodes { labels books { name authors { name } } } } }`
	const perBook, perAuthor = 1 + 1 + 1, 1
	type returned struct {
		path []string
		size int
		want int
	}
	for name, c := range map[string]struct {
		query string
		lists []returned
	}{
		"as assumed":        {plain, []returned{{books, 3, 0}, {books, 3, 0}, {authors, 1, 0}}},
		"a short list pays": {plain, []returned{{books, 1, 0}, {books, 5, 0}, {books, 1, perBook}}},
		"null":              {plain, []returned{{books, -1, 0}, {books, 6, 0}}},
		"longer":            {plain, []returned{{books, 10, 4 * perBook}, {books, 2, 2 * perBook}}},
		"a list in a longer one": {plain, []returned{{books, 10, 4 * perBook}, {authors, 10, 0},
			{authors, 3, 3 * perAuthor}}},
		"usually empty": {`{ shelves(first: 2) { nodes { books { rare { name } } } } }`,
			[]returned{{[]string{"shelves", "nodes", "books", "rare"}, 2, 2}}},
		"scalars":  {plain, []returned{{[]string{"shelves", "nodes", "labels"}, 1000, 0}}},
		"the page": {plain, []returned{{[]string{"shelves", "nodes"}, 2, 0}}},
		"a field twice": {`{ shelves(first: 1) { nodes { books { name } books { authors { name } } } } }`,
			[]returned{{books, 4, perBook}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calculator, o, _ := calculate(t, c.query)
			for i, list := range c.lists {
				var value any = make([]int, max(list.size, 0))
				if list.size < 0 {
					value = nil
				}
				if got := calculator.excess(collected(o, list.path...), value); got != list.want {
					t.Errorf("list %d costs %d more, want %d", i, got, list.want)
				}
			}
		})
	}
}
