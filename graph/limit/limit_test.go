package limit

import (
	"context"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestCheckValues_CountsOutsideOfStrings(t *testing.T) {
	t.Parallel()
	for body, values := range map[string]int{
		`{}`: 2, `[]`: 2, `"[,{"`: 1, `"\"[,{"`: 1, `"\\"`: 1, `{"a": 1, "b": [1, 2]}`: 5, `"[`: 1, `[`: 2,
	} {
		if err := CheckValues([]byte(body), values); err != nil {
			t.Error(err)
		}
		if err := CheckValues([]byte(body), values-1); !errs.Is(err, errs.TooLarge) {
			t.Errorf("%s with a limit of %d: %v", body, values-1, err)
		}
	}
}

// TestDocument_ChargesPasswords of operations that are refused because they have several.
func TestDocument_ChargesPasswords(t *testing.T) {
	t.Parallel()
	charged := 0
	l := &Document{
		Bounds: config.Bounds{Document: 1000},
		Maxima: Maxima{Tokens: 100, Fields: 10, RootFields: 10, Depth: 10, Repeats: 10, Fragments: 10, Aliases: 10,
			Directives: 10},
		Valid: lru.New[*ast.QueryDocument](10),
		Passwords: Passwords{Fields: []string{"login", "register"}, Charge: func(_ context.Context, attempts int) {
			charged += attempts
		}},
	}
	must.NoError(t, l.Validate(nil))
	for query, want := range map[string]int{
		`mutation { login }`:                                               0,
		`mutation { login logout }`:                                        0,
		`mutation { login register }`:                                      2,
		`mutation { a: login b: login ...F }`:                              2,
		`mutation { ...F } fragment F on M { login }`:                      0,
		`mutation { login ...F } fragment F on M { a: login }`:             2,
		`mutation { ... { ...F } ... { ...F } } fragment F on M { login }`: 2,
		`mutation A { login } mutation B { login }`:                        0,
		`mutation A { x } mutation B { a: login b: login }`:                2,
		`mutation { ...F ...F } fragment F on M { a: login }`:              2,
		`mutation { login(x: 1) register (x: 2) login(x: 3)`:               3, // not a document
		`mutation { login(x: 1)`:                                           0,
		"mutation {" + strings.Repeat(" login(x: 1)", 50) + "}":            50, // too many tokens
	} {
		charged = 0
		problem := l.MutateOperationParameters(t.Context(), &graphql.RawParams{
			Query: query, OperationName: map[bool]string{true: "A"}[strings.HasPrefix(query, "mutation A")]})
		if charged != want || want > 0 && problem == nil {
			t.Errorf("%.60s: charged %d, want %d: %v", query, charged, want, problem)
		}
	}
}
