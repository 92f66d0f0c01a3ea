package graph

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestLimits_RefuseInvalidOperations has the cases that are not at the edge of a bound.
func TestLimits_RefuseInvalidOperations(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	nested := func(depth int) string { // fragments, so that the depth is not seen at once
		return "{ " + strings.Repeat("... on Query { ", 10) + "me { " +
			strings.Repeat("workspaces { edges { node { links { edges { node { workspace { ", depth) +
			"id" + strings.Repeat(" } } } } } } } ", depth) + " }" + strings.Repeat(" }", 11)
	}
	for name, c := range map[string]struct {
		query string
		want  string
	}{
		"depth": {nested(3), "COMPLEXITY_LIMIT_EXCEEDED"},
		"cost, the last": {`{ me { workspaces(first: 90) { edges { node { links(first: 36) { edges { node { ` +
			`id } } } } } } } }`, ""},
		"cost, too much": {`{ me { workspaces(first: 100) { edges { node { links(first: 100) { edges { node { ` +
			`id } } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"hours of many links": {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { ` +
			`series(interval: HOUR) { clicks } } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"days of many links": {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { ` +
			`series(interval: DAY) { clicks } } } } } } } }`, ""},
		"a document too long": {"{ " + strings.Repeat("a", 64<<10) + ": __typename }", "BAD_REQUEST"},
		"two log-ins": {`mutation { a: login(input: {email: "a", password: "b"}) { token } ...L } fragment ` +
			`L on Mutation { login(input: {email: "a", password: "b"}) { token } }`, "BAD_REQUEST"},
		"a fragment bomb":      {bomb(60), "COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment in itself": {"{ ...A } fragment A on Query { ...A }", "BAD_REQUEST"},
		"fragments in a circle": {"{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }",
			"BAD_REQUEST"},
		"fragments among all": {circles(12), "BAD_REQUEST"},
		"a bomb that is not lit": {"{ __typename " + strings.TrimPrefix(bomb(60), "{ ...Aa"),
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of a fragment": {"{ ...F } fragment F on Query" + strings.Repeat(" @a", 51) + " { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of an operation": {"query" + strings.Repeat(" @a", 51) + " { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of a variable": {"query ($x: Int" + strings.Repeat(" @a", 51) + ") { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment of nothing":  {"{ ...A }", "BAD_REQUEST"},
		"no operation":           {"fragment A on Query { __typename }", "BAD_REQUEST"},
		"two without a name":     {"{ __typename } { __typename }", "BAD_REQUEST"},
		"no GraphQL":             {"SELECT 1", "BAD_REQUEST"},
		"nothing but a NUL":      {"\x00", "BAD_REQUEST"},
		"a subscription":         {"subscription { __typename }", "BAD_REQUEST"},
		"negative page":          {`{ me { workspaces(first: -1) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a page too large":       {`{ me { workspaces(first: 101) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a number out of bounds": {`{ me { workspaces(first: 99999999999) { edges { cursor } } } }`, "BAD_REQUEST"},
		"a foreign cursor":       {`{ me { workspaces(after: "bG5r") { edges { cursor } } } }`, "INVALID_INPUT"},
		"no member of a oneOf":   {`{ link(by: {}) { id } }`, "BAD_REQUEST"},
		"both of a oneOf":        {`{ link(by: {id: "a", shortUrl: "b"}) { id } }`, "BAD_REQUEST"},
		"null in a oneOf":        {`{ link(by: {id: null}) { id } }`, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			r := b.ask(t, ada, c.query)
			if got := strings.Split(r.codes(), " ")[0]; got != c.want {
				t.Errorf("%q, want %q: %.300s", got, c.want, r.text)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestArguments_RequireExactVariables(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	const byLink = `query ($by: LinkBy!) { link(by: $by) { id } }`
	const strategy = `mutation ($in: CreateLinkInput!) { createLink(input: $in) { created errors { code } } }`
	input := func(strategy string) map[string]any {
		return map[string]any{"workspaceId": "x", "url": "https://example.com", "strategy": strategy}
	}
	for name, c := range map[string]struct {
		query string
		value any
		want  string
	}{
		"one":               {byLink, map[string]any{"id": "x"}, ""},
		"none":              {byLink, map[string]any{}, "BAD_REQUEST"},
		"both":              {byLink, map[string]any{"id": "x", "shortUrl": "y"}, "BAD_REQUEST"},
		"null":              {byLink, map[string]any{"id": nil}, "BAD_REQUEST"},
		"one and null":      {byLink, map[string]any{"id": "x", "shortUrl": nil}, "BAD_REQUEST"},
		"an enum value":     {strategy, input("CUSTOM"), ""},
		"in another case":   {strategy, input("custom"), "BAD_REQUEST"},
		"of no enum at all": {strategy, input("marker"), "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			variable := map[string]string{byLink: "by", strategy: "in"}[c.query]
			r := b.ask(t, ada, c.query, variable, c.value)
			if r.codes() != c.want || strings.Contains(r.text, "marker") {
				t.Errorf("%q, want %q: %s", r.codes(), c.want, r.text)
			}
		})
	}
}

// circles returns n fragments, each of which spreads all others.
func circles(n int) string {
	text := "{ ...Aa }"
	for i := range n {
		text += " fragment A" + number(i) + " on Query {"
		for k := range n {
			if k != i {
				text += " ...A" + number(k)
			}
		}
		text += " }"
	}
	return text
}

// bomb returns levels of fragments, each of which spreads the next one twice.
func bomb(levels int) string {
	var s strings.Builder
	s.WriteString("{ ...Aa }")
	for i := range levels {
		s.WriteString(strings.NewReplacer("#", number(i), "%", number(i+1)).
			Replace(" fragment A# on Query { ...A% ...A% }"))
	}
	s.WriteString(" fragment A" + number(levels) + " on Query { __typename }")
	return s.String()
}

func number(i int) string {
	const digits = "abcdefghij"
	out := ""
	for ; ; i /= 10 {
		out = string(digits[i%10]) + out
		if i < 10 {
			return out
		}
	}
}

func TestIntrospection_IsOffByDefault(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	closed, open := setup(t, d), setup(t, d, func(c *Config) { c.Introspection = true })
	for query, hint := range map[string]string{
		`{ __schema { queryType { name } } }`: "queryType",
		`{ __type(name: "Link") { name } }`:   `"name"`,
		`{ mee { id } }`:                      "Did you mean",
	} {
		t.Run(query, func(t *testing.T) {
			if got := closed.ask(t, "", query).text; strings.Contains(got, hint) {
				t.Errorf("closed: %s: %s", query, got)
			}
			if got := open.ask(t, "", query).text; !strings.Contains(got, hint) {
				t.Errorf("open: %s: %s", query, got)
			}
		})
	}
}
