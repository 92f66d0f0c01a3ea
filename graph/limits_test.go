package graph

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestLimits_RefuseInvalidOperations has the cases that are not at the edge of a bound.
func TestLimits_RefuseInvalidOperations(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	const secret = "mArKeR"
	for name, c := range map[string]struct {
		query string
		want  string
	}{
		"hours of many links": {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { ` +
			`series(interval: HOUR) { clicks } } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"days of many links": {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { ` +
			`series(interval: DAY) { clicks } } } } } } } }`, ""},
		"a fragment in itself": {"{ ...A } fragment A on Query { ...A }", "BAD_REQUEST"},
		"directives of a fragment": {"{ ...F } fragment F on Query" + strings.Repeat(" @a", 51) + " { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of an operation": {"query" + strings.Repeat(" @a", 51) + " { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of a variable": {"query ($x: Int" + strings.Repeat(" @a", 51) + ") { __typename }",
			"COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment of nothing":  {"{ ...A }", "BAD_REQUEST"},
		"no operation":           {"fragment A on Query { __typename }", "BAD_REQUEST"},
		"no GraphQL":             {"SELECT 1", "BAD_REQUEST"},
		"nothing but a NUL":      {"\x00", "BAD_REQUEST"},
		"a subscription":         {"subscription { __typename }", "BAD_REQUEST"},
		"negative page":          {`{ me { workspaces(first: -1) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a page too large":       {`{ me { workspaces(first: 101) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a number out of bounds": {`{ me { workspaces(first: 99999999999) { edges { cursor } } } }`, "BAD_REQUEST"},
		"an unknown field":       {"{ me { passwordHash } }", "BAD_REQUEST"},
		"an unknown argument":    {`{ node(id: "1", secret: "` + secret + `") { id } }`, "BAD_REQUEST"},
		"an unterminated string": {`{ node(id: "` + secret, "BAD_REQUEST"},
		"only a comment":         {"# " + secret, "BAD_REQUEST"},
		"a foreign cursor":       {`{ me { workspaces(after: "bG5r") { edges { cursor } } } }`, "INVALID_INPUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := b.ask(t, ada, c.query)
			if got := strings.Split(r.Codes(), " ")[0]; got != c.want ||
				got == "BAD_REQUEST" && strings.Contains(r.Text, secret) {
				t.Errorf("%q, want %q: %.300s", got, c.want, r.Text)
			}
		})
	}
}

// circles returns n fragments that each spread all others.
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

// bomb returns levels of fragments that each spread the next one twice.
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
		`{ node(i: "1") { id } }`:             "Did you mean",
		`{ platformStats { totalLinks } s: __schema { queryType { name } } }`: "queryType",
		`{ me { id } _service { sdl } }`:                                      "type Link",
		`{ ...f } fragment f on Query { __schema { queryType { name } } }`:    "queryType",
	} {
		if got := closed.ask(t, "", query).Text; strings.Contains(got, hint) {
			t.Errorf("closed: %s: %s", query, got)
		}
		if got := open.ask(t, "", query).Text; !strings.Contains(got, hint) {
			t.Errorf("open: %s: %s", query, got)
		}
	}
}
