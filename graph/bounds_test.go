package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// loosen raises all bounds and maxima but one to what nothing here exceeds, and returns that one.
func loosen(c *Config, but string) (most int) {
	for _, all := range []any{&c.Bounds, &c.Maxima} {
		for f, value := range reflect.ValueOf(all).Elem().Fields() {
			switch f.Name {
			case but:
				most = int(value.Int())
			case "Deadline":
			default:
				value.SetInt(1 << 30)
			}
		}
	}
	return most
}

// typenames returns n fields that every type has.
func typenames(n int) string { return strings.Repeat(" __typename", n) }

// deep is a query of fields that nest so deep, the last in a fragment.
func deep(levels int) string {
	way := []string{"me", "workspaces", "edges", "node"}
	for len(way) < levels {
		way = append(way, "links", "edges", "node", "workspace")
	}
	way = way[:levels-1]
	return "{" + strings.Join(way, " {") + " { ... { __typename }" + strings.Repeat(" }", len(way)) + " }"
}

// TestLimits_HoldAtTheEdgeOfEveryBound requests exactly as much as each default bound allows, and one more.
func TestLimits_HoldAtTheEdgeOfEveryBound(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	ada := setup(t, d).person(t, "ada").token
	for field, c := range map[string]struct {
		document  func(n int) string
		variables func(n int) any
		code      string
		// says is a part of the message, in addition to the bound's value.
		says string
	}{
		"Document": {func(n int) string { return fmt.Sprintf("{%-*s}", n-2, " __typename") }, nil, "BAD_REQUEST",
			"too long"},
		"Tokens": {func(n int) string { return "{" + typenames(n-2) + " }" }, nil, "BAD_REQUEST", "tokens"},
		"Fields": {func(n int) string {
			return "{ ...F ...F" + typenames(n%2) + " } fragment F on Query {" + typenames(n/2) + " }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "fields, after fragments"},
		"RootFields": {func(n int) string {
			return "{ me { id } ... { ...F } } fragment F on Query {" + typenames(n-1) + " }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "root fields"},
		"Depth": {deep, nil, "COMPLEXITY_LIMIT_EXCEEDED", "levels"},
		"Aliases": {func(n int) string {
			return "{ ...F ...F" + strings.Repeat(" b: __typename", n%2) + " me { id } } fragment F on Query {" +
				strings.Repeat(" a: __typename", n/2) + " }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "aliases"},
		"Repeats": {func(n int) string {
			return "{ me { id } me { ...F } ... { me {" + strings.Repeat(" id", n-2) +
				" } } } fragment F on User { id }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "same response name"},
		"Fragments": {func(n int) string {
			return "{ ...F ...F" + strings.Repeat(" ... { __typename }", n%2) + " } fragment F on Query {" +
				strings.Repeat(" ... { __typename }", n/2-1) + " }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "fragments"},
		"Directives": {func(n int) string {
			const on = " @include(if: true)"
			return "{ ...F" + on + " ..." + on + " { __typename }" + strings.Repeat(" __typename"+on, n-4) +
				" } fragment F on Query { ...G" + on + " } fragment G on Query { __typename" + on + " }"
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "directives"},
		"Cost": {func(n int) string {
			// Two fields, workspaces that cost 101 each, and the remaining number of fields.
			return fmt.Sprintf(`{ me { workspaces(first: %d) { edges { node {%s } } }%s } }`, (n-2)/101,
				strings.Repeat(" id", 99), strings.Repeat(" id", (n-2)%101))
		}, nil, "COMPLEXITY_LIMIT_EXCEEDED", "costs"},
		"Values": {func(int) string { return "{ __typename }" }, func(n int) any { return make([]int, n-4) },
			"REQUEST_TOO_LARGE", "values"},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			most := 0
			b := setup(t, d, func(c *Config) { most = loosen(c, field) })
			ask := func(n int) reply {
				body := map[string]any{"query": c.document(n)}
				if c.variables != nil {
					body["variables"] = map[string]any{"x": c.variables(n)}
				}
				text := must.Value(json.Marshal(body))(t)
				return b.send(t, ada, http.MethodPost, "/", "application/json", string(text), mediaGraphQL)
			}
			if r := ask(most); len(r.Errors) > 0 || r.Data == nil {
				t.Errorf("the last: %.300s", r.Text)
			}
			r := ask(most + 1)
			if r.Codes() != c.code || r.Data != nil || !strings.Contains(r.Text, c.says) ||
				!strings.Contains(r.Text, strconv.Itoa(most)) {
				t.Errorf("one more: %.300s", r.Text)
			}
		})
	}
}

// TestLimits_BoundBodies sends the largest body that a caller may send, and one byte more.
func TestLimits_BoundBodies(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	for token, most := range map[string]int{"": transport.MaxAnonymousBody, ada: b.Bounds.Body} {
		body := func(n int) string { return `{"query":"{ __typename }"` + strings.Repeat(" ", n-26) + "}" }
		if r := b.send(t, token, http.MethodPost, "/", "application/json", body(most),
			mediaGraphQL); len(r.Errors) > 0 {
			t.Errorf("the last of %d bytes: %.300s", most, r.Text)
		}
		r := b.send(t, token, http.MethodPost, "/", "application/json", body(most+1), mediaGraphQL)
		if r.Status != http.StatusRequestEntityTooLarge || r.Codes() != "REQUEST_TOO_LARGE" ||
			!strings.Contains(r.Text, strconv.Itoa(most)) {
			t.Errorf("one more than %d bytes: %d %.300s", most, r.Status, r.Text)
		}
	}
}

func TestLimits_BoundTheDurationOfAnOperation(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Bounds.Deadline = time.Nanosecond })
	if r := b.ask(t, "", "{ platformStats { totalLinks } }"); r.Codes() != "UNAVAILABLE" ||
		r.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", r.Status, r.Text)
	}
}

// TestLimits_AllowIntrospectionByTools sends the introspection query of common tools.
func TestLimits_AllowIntrospectionByTools(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Introspection = true })
	of := strings.Repeat("ofType { kind name ", 9) + strings.Repeat("} ", 9)
	r := b.ask(t, "", `query IntrospectionQuery { __schema { description queryType { name kind }
		mutationType { name kind } subscriptionType { name kind }
		types { ...FullType } directives { name description isRepeatable locations args(includeDeprecated:
		true) { ...InputValue } } } }
		fragment FullType on __Type { kind name description specifiedByURL isOneOf
			fields(includeDeprecated: true) { name description args(includeDeprecated: true) { ...InputValue }
			type { ...TypeRef } isDeprecated deprecationReason }
			inputFields(includeDeprecated: true) { ...InputValue } interfaces { ...TypeRef }
			enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
			possibleTypes { ...TypeRef } }
		fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue isDeprecated
		deprecationReason }
		fragment TypeRef on __Type { kind name `+of+`}`)
	if len(r.Errors) > 0 {
		t.Errorf("%.500s", r.Text)
	}
}
