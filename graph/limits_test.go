package graph

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestLimitsAtTheirBoundaries asks for the last that is allowed and the first that is not, beside what TestEveryBoundAtItsEdge does.
func TestLimitsAtTheirBoundaries(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	ada := b.person(t, "ada").token
	nested := func(depth int) string { // fragments, so that the depth is not seen at once
		return "{ " + strings.Repeat("... on Query { ", 10) + "me { " + strings.Repeat("workspaces { edges { node { links { edges { node { workspace { ", depth) +
			"id" + strings.Repeat(" } } } } } } } ", depth) + " }" + strings.Repeat(" }", 11)
	}
	for name, c := range map[string]struct {
		query string
		want  string
	}{
		"depth":                      {nested(3), "COMPLEXITY_LIMIT_EXCEEDED"},
		"cost, the last":             {`{ me { workspaces(first: 90) { edges { node { links(first: 36) { edges { node { id } } } } } } } }`, ""},
		"cost, too much":             {`{ me { workspaces(first: 100) { edges { node { links(first: 100) { edges { node { id } } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"hours of many links":        {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { series(interval: HOUR) { clicks } } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"days of many links":         {`{ node(id: "x") { ... on Workspace { links(first: 100) { edges { node { stats { series(interval: DAY) { clicks } } } } } } } }`, ""},
		"a document too long":        {"{ " + strings.Repeat("a", 64<<10) + ": __typename }", "BAD_REQUEST"},
		"two log-ins":                {`mutation { a: login(input: {email: "a", password: "b"}) { token } ...L } fragment L on Mutation { login(input: {email: "a", password: "b"}) { token } }`, "BAD_REQUEST"},
		"a fragment bomb":            {bomb(60), "COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment in itself":       {"{ ...A } fragment A on Query { ...A }", "BAD_REQUEST"},
		"fragments in a circle":      {"{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", "BAD_REQUEST"},
		"fragments among all":        {circles(12), "BAD_REQUEST"},
		"a bomb that is not lit":     {"{ __typename " + strings.TrimPrefix(bomb(60), "{ ...Aa"), "COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of a fragment":   {"{ ...F } fragment F on Query" + strings.Repeat(" @a", 51) + " { __typename }", "COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of an operation": {"query" + strings.Repeat(" @a", 51) + " { __typename }", "COMPLEXITY_LIMIT_EXCEEDED"},
		"directives of a variable":   {"query ($x: Int" + strings.Repeat(" @a", 51) + ") { __typename }", "COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment of nothing":      {"{ ...A }", "BAD_REQUEST"},
		"no operation":               {"fragment A on Query { __typename }", "BAD_REQUEST"},
		"two without a name":         {"{ __typename } { __typename }", "BAD_REQUEST"},
		"no GraphQL":                 {"SELECT 1", "BAD_REQUEST"},
		"nothing but a NUL":          {"\x00", "BAD_REQUEST"},
		"a subscription":             {"subscription { __typename }", "BAD_REQUEST"},
		"negative page":              {`{ me { workspaces(first: -1) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a page too large":           {`{ me { workspaces(first: 101) { edges { cursor } } } }`, "INVALID_INPUT"},
		"a number out of bounds":     {`{ me { workspaces(first: 99999999999) { edges { cursor } } } }`, "BAD_REQUEST"},
		"a foreign cursor":           {`{ me { workspaces(after: "bG5r") { edges { cursor } } } }`, "INVALID_INPUT"},
		"no member of a oneOf":       {`{ link(by: {}) { id } }`, "BAD_REQUEST"},
		"both of a oneOf":            {`{ link(by: {id: "a", shortUrl: "b"}) { id } }`, "BAD_REQUEST"},
		"null in a oneOf":            {`{ link(by: {id: null}) { id } }`, "BAD_REQUEST"},
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

func TestVariablesAreExact(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
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
		variable := map[string]string{byLink: "by", strategy: "in"}[c.query]
		r := b.ask(t, ada, c.query, variable, c.value)
		if r.codes() != c.want || strings.Contains(r.text, "marker") {
			t.Errorf("%s: %q, want %q: %s", name, r.codes(), c.want, r.text)
		}
	}
}

// circles has as many fragments as given, each of which spreads all others.
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

// bomb has as many levels of fragments as given, each of which spreads the next one twice.
func bomb(levels int) string {
	var s strings.Builder
	s.WriteString("{ ...Aa }")
	for i := range levels {
		s.WriteString(strings.NewReplacer("#", number(i), "%", number(i+1)).Replace(" fragment A# on Query { ...A% ...A% }"))
	}
	s.WriteString(" fragment A" + number(levels) + " on Query { __typename }")
	return s.String()
}

func number(i int) string {
	const letters = "abcdefghij"
	out := ""
	for ; ; i /= 10 {
		out = string(letters[i%10]) + out
		if i < 10 {
			return out
		}
	}
}

func TestProductionTellsNothingOfTheSchema(t *testing.T) {
	t.Parallel()
	d := dbtest.Migrated(t, dbtest.SQLite(t))
	closed, open := setup(t, d), setup(t, d, func(c *Config) { c.Introspection = true })
	for query, hint := range map[string]string{
		`{ __schema { queryType { name } } }`: "queryType",
		`{ __type(name: "Link") { name } }`:   `"name"`,
		`{ mee { id } }`:                      "Did you mean",
	} {
		if got := closed.ask(t, "", query).text; strings.Contains(got, hint) {
			t.Errorf("closed: %s: %s", query, got)
		}
		if got := open.ask(t, "", query).text; !strings.Contains(got, hint) {
			t.Errorf("open: %s: %s", query, got)
		}
	}
}

func TestRequestsThatAreNotExecuted(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	ada := b.person(t, "ada").token
	const query = `{"query":"{ __typename }"}`
	large := `{"query":"{ __typename }","variables":{"x":"` + strings.Repeat("marker ", 50_000) + `"}}`
	for name, c := range map[string]struct {
		token, method, target, contentType, body, accept string
		status                                           int
		code                                             string
	}{
		"broken JSON":         {"", "POST", "/", "application/json", `{"query": marker`, "", 400, "BAD_REQUEST"},
		"a batch":             {"", "POST", "/", "application/json", `[` + query + `]`, "", 400, "BAD_REQUEST"},
		"two values":          {"", "POST", "/", "application/json", query + query, "", 400, "BAD_REQUEST"},
		"no query":            {"", "POST", "/", "application/json", `{}`, "", 400, "BAD_REQUEST"},
		"an empty body":       {"", "POST", "/", "application/json", ``, "", 400, "BAD_REQUEST"},
		"query of a number":   {"", "POST", "/", "application/json", `{"query": 1}`, "", 400, "BAD_REQUEST"},
		"variables in a list": {"", "POST", "/", "application/json", `{"query":"{ me { id } }","variables":["marker"]}`, "", 400, "BAD_REQUEST"},
		"a form":              {"", "POST", "/", "application/x-www-form-urlencoded", `query={me{id}}`, "", 415, "BAD_REQUEST"},
		"plain text":          {"", "POST", "/", "text/plain", query, "", 415, "BAD_REQUEST"},
		"another charset":     {"", "POST", "/", "application/json; charset=utf-16", query, "", 415, "BAD_REQUEST"},
		"nothing acceptable":  {"", "POST", "/", "application/json", query, "text/html", 406, "BAD_REQUEST"},
		"too large":           {"", "POST", "/", "application/json", large, "", 413, "REQUEST_TOO_LARGE"},
		"a bad token":         {"marker", "POST", "/", "application/json", query, "", 401, "UNAUTHENTICATED"},
		"a mutation by GET":   {ada, "GET", `/?query=mutation{login(input:{email:"a",password:"b"}){token}}`, "", "", "", 405, "BAD_REQUEST"},
		"a mutation by HEAD":  {ada, "HEAD", `/?query=mutation{login(input:{email:"a",password:"b"}){token}}`, "", "", "", 405, "BAD_REQUEST"},
		"a name of no use":    {"", "POST", "/", "application/json", `{"query":"{ __typename }","operationName":"marker"}`, "", 200, "BAD_REQUEST"},
		"variables by GET":    {ada, "GET", `/?query={me{id}}&variables=marker`, "", "", "", 400, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := b.send(t, c.token, c.method, c.target, c.contentType, c.body, c.accept)
			if r.status != c.status || r.codes() != c.code {
				t.Errorf("%d %s, want %d %s: %.300s", r.status, r.codes(), c.status, c.code, r.text)
			}
			if strings.Contains(r.text, "marker") || strings.Contains(r.text, `"data"`) {
				t.Errorf("the answer has data, or repeats the request: %.300s", r.text)
			}
		})
	}
	if r := b.send(t, ada, "POST", "/", "application/json", large, ""); r.status != http.StatusOK || len(r.Errors) > 0 {
		t.Errorf("a large body with log-in: %d %.300s", r.status, r.text)
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	for accept, want := range map[string]string{
		"":                                  mediaJSON,
		"*/*":                               mediaJSON,
		"application/json":                  mediaJSON,
		mediaGraphQL:                        mediaGraphQL,
		mediaGraphQL + ", */*;q=0.1":        mediaGraphQL,
		"application/json, " + mediaGraphQL: mediaGraphQL,
		mediaGraphQL + ";q=0.5, application/json": mediaJSON,
		"text/html, application/*;q=0.5":          mediaJSON,
	} {
		ok := b.send(t, "", "POST", "/", "application/json", `{"query":"{ __typename }"}`, accept)
		if got := ok.header.Get("Content-Type"); got != want+"; charset=utf-8" || ok.status != 200 {
			t.Errorf("Accept %q: %d %s, want %s", accept, ok.status, got, want)
		}
		// Whoever asks for plain JSON expects 200 for what is well-formed, also when it is not valid.
		invalid := b.send(t, "", "POST", "/", "application/json", `{"query":"{ nothing }"}`, accept)
		if status := map[string]int{mediaJSON: 200, mediaGraphQL: 400}[want]; invalid.status != status {
			t.Errorf("Accept %q: %d for an invalid query, want %d", accept, invalid.status, status)
		}
	}
}
