package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// argumentMarker stands in every wrong value that has room for text. It must not be in an answer or in the log.
const argumentMarker = "wrong-value-5f0c"

// argumentCase is one operation with a wrong value in one argument.
type argumentCase struct {
	name, query, path string
	variables         map[string]any
}

// TestArguments_RefusesWrongValuesOfEveryArgument puts a value of each wrong JSON type into every
// argument and every input field of the schema, as a literal and as a variable: into the fields of
// an input type where the schema first has it.
func TestArguments_RefusesWrongValuesOfEveryArgument(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Introspection = true })
	schema := gen.NewExecutableSchema(gen.Config{}).Schema()
	tokens := map[string]string{"anonymous": "", "signed in": b.person(t, "ada").token}
	cases := everyArgument(schema, wrongValues)
	if len(cases) < 5000 {
		t.Errorf("only %d cases: the walk does not reach the whole schema", len(cases))
	}
	for i, c := range cases {
		for caller, token := range tokens {
			if caller == "anonymous" && i%suitetest.Size(4, 1) != 0 {
				continue
			}
			body := must.Value(json.Marshal(map[string]any{"query": c.query, "variables": c.variables}))(t)
			r := b.send(t, token, "POST", "/graphql", "application/json", string(body), mediaGraphQL)
			if r.Codes() != "BAD_REQUEST" || r.Status != 400 || !strings.HasPrefix(r.Errors[0].Message, c.path) {
				t.Errorf("%s, %s: %d %q: %.300s\n%s", c.name, caller, r.Status, r.Codes(), r.Text, body)
			}
			if strings.Contains(r.Text, argumentMarker) {
				t.Errorf("%s, %s: the answer repeats the value: %.300s", c.name, caller, r.Text)
			}
		}
	}
	for kind, outcomes := range b.Handler.Stats().Outcomes {
		if n := outcomes["INTERNAL"]; n > 0 {
			t.Errorf("%d operations of the kind %s count as INTERNAL", n, kind)
		}
	}
	if log := b.log.String(); strings.Contains(log, argumentMarker) || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log has the value, or an error: %.1000s", log)
	}
}

// TestArguments_SurviveHostileText puts text that databases, logs and templates may trip over into
// every argument and input field that takes text, of the caller's own objects. Text that is not
// UTF-8 never reaches an argument. On PostgreSQL the quick suite tries what a statement may trip
// over.
func TestArguments_SurviveHostileText(t *testing.T) {
	t.Parallel()
	inStatements := []string{`\u0000`, `' OR '1'='1' -- `, `? ?0 ?1`}
	anywhere := slices.Concat(inStatements, []string{
		`\u0001\u001f\u007f\u0085\u2028`, `\"; DROP TABLE links; -- `,
		`%s%n%00 {{.}} ${jndi:ldap://evil.example/}`, `../../../../etc/passwd`, `\ufeff\u202e`, `Local`, ` `,
		`https://example.com/ ' OR 1=1 --`, strings.Repeat("x", 100_000),
	})
	schema := gen.NewExecutableSchema(gen.Config{}).Schema()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		texts := anywhere
		if d.Kind == db.Postgres {
			texts = suitetest.Size(inStatements, anywhere)
		}
		cases := everyArgument(schema, func(_ *ast.Type, d *ast.Definition) map[string]wrongValue {
			all := map[string]wrongValue{}
			if slices.Contains([]string{"String", "ID", "URL", "EmailAddress", "Time"}, d.Name) {
				all["nothing"] = wrongValue{value: json.RawMessage(`""`)}
				for _, text := range texts {
					all[text[:min(len(text), 20)]] = wrongValue{value: json.RawMessage(`"` + text + argumentMarker +
						`"`)}
				}
			}
			return all
		})
		b, ada := withAda(t, d)
		own := b.link(t, ada, "https://example.com/").ID
		asked := 0
		for _, c := range cases {
			if c.variables == nil {
				continue
			}
			asked++
			id := own
			if strings.Contains(strings.ToLower(c.query), "workspace(") {
				id = ada.workspace.ID()
			}
			body := strings.NewReplacer(`workspaceId: \"x`, `workspaceId: \"`+ada.workspace.ID(), `id: \"x`,
				`id: \"`+id,
				`"workspaceId":"x`, `"workspaceId":"`+ada.workspace.ID(), `"id":"x`, `"id":"`+id,
			).Replace(string(must.Value(json.Marshal(map[string]any{"query": c.query, "variables": c.variables}))(t)))
			r := b.send(t, ada.token, "POST", "/graphql", "application/json", body, mediaGraphQL)
			if strings.Contains(r.Text, "INTERNAL") || r.Status >= 500 || strings.Contains(r.Text, argumentMarker) {
				t.Errorf("%s: %d %.300s\n%.500s", c.name, r.Status, r.Text, body)
			}
		}
		if asked < 80*len(texts) {
			t.Errorf("only %d cases", asked)
		}
		if b.ask(t, ada.token, `query ($x: ID!) { link(by: {id: $x}) { id } }`, "x", own).
			Text != `{"data":{"link":{"id":"`+own+`"}}}` {
			t.Error("the link is gone")
		}
		if log := b.log.String(); strings.Contains(log, argumentMarker) || strings.Contains(log, "level=ERROR") {
			t.Errorf("the log has the value, or an error: %.1000s", log)
		}
	})
}

// TestArguments_CoercesAsTheSpecificationSays has the cases that are not about one argument alone.
func TestArguments_CoercesAsTheSpecificationSays(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	const (
		byID    = `query ($x: ID!) { node(id: $x) { id } }`
		byLink  = `query ($x: LinkBy!) { link(by: $x) { id } }`
		limited = `mutation ($x: Int64) { createLink(input: {workspaceId: "x", url: "u", maxClicks: $x}) { created } }`
		create  = `mutation ($x: CreateLinkInput!) { createLink(input: $x) { created } }`
		keys    = `mutation ($x: [Permission!]!) {
			createApiKey(input: {workspaceId: "x", name: "n", scopes: $x}) { errors { code } }
		}`
	)
	operationNames := map[string]any{"query A": "A"} // else null
	for name, c := range map[string]struct {
		query, variables string
		want             string // the start of the message; empty if the operation is executed
	}{
		"ID as an integer":                   {`{ node(id: 5) { id } }`, `{}`, ""},
		"ID as an integer variable":          {byID, `{"x": 5}`, ""},
		"one value for a list":               {`{ nodes(ids: "a") { id } }`, `{}`, ""},
		"one value for a list as a variable": {`query ($x: [ID!]!) { nodes(ids: $x) { id } }`, `{"x": "a"}`, ""},
		"enum as a variable":                 {keys, `{"x": ["LINKS_READ"]}`, ""},
		"one enum value for a list":          {keys, `{"x": "LINKS_READ"}`, ""},
		"lower case in the second item": {keys, `{"x": ["LINKS_READ", "links_read"]}`,
			"createApiKey.input.scopes[1]: The value must be one of LINKS_READ, "},
		"variable with a default": {`query ($x: ID! = "a") { node(id: $x) { id } }`, `{}`, ""},
		"null for a default": {`query ($x: ID = "a") { node(id: $x) { id } }`,
			`{"x": null}`, "node.id: A value of the type ID! is required."},
		"default that is not used": {`query ($x: ID! = {}) { node(id: $x) { id } }`,
			`{"x": "a"}`, "$x: An ID is a string"},
		"required variable not given": {byID, `{}`, "node.id: A value of the type ID! is required."},
		"unset variable in an object": {limited, `{}`, ""},
		"two fields of a oneOf by variable": {`query ($x: String!) { link(by: {id: "x", shortUrl: $x}) { id } }`,
			`{"x": "a"}`, "link.by: Give exactly one"},
		"no field of a oneOf by variable": {byLink, `{"x": {}}`, "link.by: Give"},
		"null in a oneOf by variable":     {byLink, `{"x": {"id": null}}`, "link.by"},
		"one field and null of a oneOf":   {byLink, `{"x": {"id": "x", "shortUrl": null}}`, "link.by"},
		"variable in an object": {limited,
			`{"x": "5"}`, "createLink.input.maxClicks: An Int64 is a whole number"},
		"missing field": {create,
			`{"x": {"workspaceId": "x"}}`, "createLink.input.url: A value of the type String! is required."},
		"unknown field": {create, `{"x": {"workspaceId": "x", "url": "u", "URL": "v"}}`,
			`createLink.input: The type CreateLinkInput has no field "URL". Remove it.`},
		"a field of a nested input": {create, `{"x": {"workspaceId": "x", "url": "u", "password": "v"}}`,
			`createLink.input: The type CreateLinkInput has no field "password". It is routing.gate.password.`},
		"alias":     {`{ mine: node(id: {}) { id } }`, `{}`, "mine.id: An ID is a string"},
		"directive": {`{ me @skip(if: {}) { id } }`, `{}`, "me.@skip.if: A Boolean is true or false"},
		"directive by a variable": {`query ($x: Boolean!) { me { id @include(if: $x) } }`,
			`{"x": "true"}`, "me.id.@include.if: A Boolean is true or false"},
		"directive of a fragment": {`{ ... @include(if: "true") { __typename } }`,
			`{}`, "@include.if: A Boolean is true or false"},
		"fragment": {`{ ...F } fragment F on Query { me { workspaces(first: {}) { edges { cursor } } } }`,
			`{}`, "me.workspaces.first: An Int is"},
		"second use of a variable": {`query ($x: ID = "a") { nodes(ids: [$x]) { id } node(id: $x) { id } }`,
			`{"x": {}}`, "nodes.ids[0]: An ID is"},
		"several operations without a name": {
			`query C { __typename } query D { __typename }`, `{}`, "The document has several operations"},
		"literal in an operation that is not executed": {
			`query A { __typename } query B($y: ID!) { node(id: $y) { id } nodes(ids: [5.5]) { id } }`,
			`{}`, "nodes.ids[0]: An ID is"},
		"default of an operation that is not executed": {
			`query A { __typename } query B($y: ID! = {}) { node(id: $y) { id } }`, `{}`, "$y: An ID is"},
		"variable of an operation that is not executed": {
			`query A { __typename } query B($y: ID!) { node(id: $y) { id } }`, `{"y": {}}`, ""},
		"variable in a fragment": {
			`query ($x: Int) { ...F } fragment F on Query { me { workspaces(first: $x) { edges { cursor } } } }`,
			`{"x": "1"}`, "me.workspaces.first: An Int is"},
	} {
		t.Run(name, func(t *testing.T) {
			body := must.Value(json.Marshal(map[string]any{
				"query": c.query, "variables": json.RawMessage(c.variables),
				"operationName": operationNames[c.query[:7]],
			}))(t)
			r := b.send(t, ada, "POST", "/graphql", "application/json", string(body), mediaGraphQL)
			switch {
			case c.want == "" && strings.Contains(r.Codes(), "BAD_REQUEST"), strings.Contains(r.Codes(), "INTERNAL"):
				t.Error(r.Text)
			case c.want != "" && (r.Codes() != "BAD_REQUEST" || !strings.HasPrefix(r.Errors[0].Message, c.want)):
				t.Errorf("want %q: %s", c.want, r.Text)
			}
		})
	}
}

// TestArguments_AcceptNullWhereOptional puts null into every argument and input field that need not
// have a value: it is as absent, or removes a value.
func TestArguments_AcceptNullWhereOptional(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Introspection = true })
	cases := everyArgument(gen.NewExecutableSchema(gen.Config{}).Schema(),
		func(t *ast.Type, _ *ast.Definition) map[string]wrongValue {
			if t.NonNull {
				return nil
			}
			return map[string]wrongValue{"null": {}}
		})
	if len(cases) < 500 {
		t.Errorf("only %d cases", len(cases))
	}
	for _, c := range cases {
		if strings.HasPrefix(c.query, "subscription") {
			continue // which POST refuses
		}
		body := must.Value(json.Marshal(map[string]any{"query": c.query, "variables": c.variables}))(t)
		r := b.send(t, ada.token, "POST", "/graphql", "application/json", string(body), mediaGraphQL)
		if strings.Contains(r.Codes(), "BAD_REQUEST") && !strings.Contains(r.Text, "Give exactly one of the fields") {
			t.Errorf("%s: %.300s", c.name, r.Text)
		}
	}
	r := b.ask(t, ada.token,
		`mutation ($in: CreateLinkInput!) { createLink(input: $in) { created errors { message } } }`, "in",
		map[string]any{
			"workspaceId": ada.workspace.ID(), "url": "https://example.com/",
			"routing": map[string]any{"rules": []any{map[string]any{
				"ruleId": nil, "stickiness": nil, "targets": []any{map[string]any{"targetId": nil}},
			}}},
		})
	if r.Text != `{"data":{"createLink":{"created":true,"errors":[]}}}` {
		t.Errorf("a rule without an id: %s", r.Text)
	}
	r = b.ask(t, ada.token, `query ($id: ID!, $filter: LinkFilter, $order: LinkOrder) {
		workspace(by: {id: $id}) { links(filter: $filter, orderBy: $order) { totalCount } }
	}`, "id", ada.workspace.ID(), "filter", map[string]any{"tagMatch": nil},
		"order", map[string]any{"field": "TITLE", "direction": nil})
	if r.Text != `{"data":{"workspace":{"links":{"totalCount":1}}}}` {
		t.Errorf("a list in the default order: %s", r.Text)
	}
}

// everyArgument returns the cases for all fields of the schema, with values for each type.
func everyArgument(
	schema *ast.Schema, values func(*ast.Type, *ast.Definition) map[string]wrongValue,
) (all []argumentCase) {
	seen, input := map[string]bool{}, inputWalk{schema, values, map[string]bool{}}
	ways := []fieldWay{
		{of: schema.Query, kind: "query"}, {of: schema.Mutation, kind: "mutation"},
		{of: schema.Subscription, kind: "subscription"},
	}
	for ; len(ways) > 0; ways = ways[1:] {
		w := ways[0]
		if seen[w.of.Name] {
			continue
		}
		seen[w.of.Name] = true
		for _, f := range w.of.Fields {
			for _, a := range f.Arguments {
				all = append(all, w.cases(input, f, a)...)
			}
			if d := schema.Types[f.Type.Name()]; d.IsCompositeType() {
				arguments := strings.TrimSuffix("("+requiredArguments(schema, f, "")+")", "()")
				before := w.before + " " + f.Name + arguments + " {"
				ways = append(ways, fieldWay{d, w.kind, before, w.after + " }", w.path + f.Name + "."})
			}
		}
	}
	return all
}

// fieldWay leads from the root of an operation to the fields of a type.
type fieldWay struct {
	of                        *ast.Definition
	kind, before, after, path string
}

// cases returns an operation for each wrong value of an argument: as a literal, a variable and a variable's default.
func (w fieldWay) cases(input inputWalk, f *ast.FieldDefinition, a *ast.ArgumentDefinition) (all []argumentCase) {
	others, selection := requiredArguments(input.schema, f, a.Name), ""
	if d := input.schema.Types[f.Type.Name()]; d.IsCompositeType() {
		selection = " { __typename"
		for _, read := range []string{"clicks", "totalCount", "edges { cursor }"} { // so that the rows are read
			name, _, _ := strings.Cut(read, " ")
			if n := d.Fields.ForName(name); n != nil && len(n.Arguments) == 0 {
				selection += " " + read
			}
		}
		selection += " }"
	}
	write := func(variable, value string) string {
		return fmt.Sprintf("%s%s {%s %s(%s%s: %s)%s%s }",
			w.kind, variable, w.before, f.Name, others, a.Name, value, selection, w.after)
	}
	for name, wrong := range input.values(a.Type) {
		path := w.path + f.Name + "." + a.Name + wrong.below
		all = append(all, argumentCase{path + ": " + name, write("", literalOf(wrong.value)), path + ": ", nil})
		byDefault := write("($x: "+a.Type.String()+" = "+literalOf(wrong.value)+")", "$x")
		all = append(all, argumentCase{path + ": " + name + " as a default", byDefault, "$x" + wrong.below + ": ", nil})
		if !wrong.literalOnly {
			variables := map[string]any{"x": wrong.value}
			query := write("($x: "+a.Type.String()+")", "$x")
			all = append(all, argumentCase{path + ": " + name + " as a variable", query, path + ": ", variables})
		}
	}
	return all
}

// requiredArguments writes the arguments that a field must have, without one.
func requiredArguments(schema *ast.Schema, f *ast.FieldDefinition, without string) (text string) {
	for _, a := range f.Arguments {
		if a.Type.NonNull && a.DefaultValue == nil && a.Name != without {
			text += a.Name + ": " + literalOf(rightValue(schema, a.Type)) + ", "
		}
	}
	return text
}

// enumLiteral is a value that is written without quotes.
type enumLiteral string

// wrongValue is a value with one mistake. It is below the argument at a path.
type wrongValue struct {
	value       any
	below       string
	literalOnly bool
}

// inputWalk goes through the types of arguments, into the input types that were not seen yet.
type inputWalk struct {
	schema *ast.Schema
	leaves func(*ast.Type, *ast.Definition) map[string]wrongValue
	seen   map[string]bool
}

// values returns values of a type with one mistake each, by a description.
func (w inputWalk) values(t *ast.Type) map[string]wrongValue {
	all := map[string]wrongValue{}
	if t.Elem != nil {
		for name, v := range w.values(t.Elem) {
			all["a list of "+name] = wrongValue{[]any{v.value}, "[0]" + v.below, v.literalOnly}
		}
		return all
	}
	d := w.schema.Types[t.NamedType]
	maps.Copy(all, w.leaves(t, d))
	if d.Kind == ast.InputObject && !w.seen[d.Name] {
		w.seen[d.Name] = true
		for _, f := range d.Fields {
			for name, v := range w.values(f.Type) {
				input := map[string]any{}
				if d.Directives.ForName("oneOf") == nil {
					input = rightValue(w.schema, ast.NonNullNamedType(d.Name, nil)).(map[string]any)
				}
				input[f.Name] = v.value
				all[f.Name+" of "+name] = wrongValue{input, "." + f.Name + v.below, v.literalOnly}
			}
		}
	}
	return all
}

// wrongValues returns a value of each JSON type that the schema's type does not allow.
func wrongValues(t *ast.Type, d *ast.Definition) map[string]wrongValue {
	all := map[string]wrongValue{
		"text": {value: argumentMarker}, "digits": {value: "5"}, "text of a boolean": {value: "true"},
		"an integer": {value: 5}, "a fraction": {value: 1.5}, "a boolean": {value: true},
		"a number of 100 digits": {value: json.Number(strings.Repeat("9", 100))},
		"a large fraction":       {value: json.Number("1e999")},
		"a name":                 {enumLiteral("NOT_A_VALUE"), "", true},
		"an object":              {value: map[string]any{"a": argumentMarker}},
		"an empty object":        {value: map[string]any{}},
		"a list":                 {value: []any{argumentMarker}},
		"lists":                  {value: []any{[]any{}, []any{argumentMarker}}},
	}
	if t.NonNull {
		all["null"] = wrongValue{}
	}
	for _, name := range map[string][]string{
		"String": {"text", "digits", "text of a boolean"}, "URL": {"text", "digits", "text of a boolean"},
		"EmailAddress": {"text", "digits", "text of a boolean"},
		"ID":           {"text", "digits", "an integer", "text of a boolean"},
		"Int":          {"an integer"}, "Int64": {"an integer"}, "Boolean": {"a boolean"},
	}[d.Name] {
		delete(all, name)
	}
	if d.Kind == ast.Enum {
		all["text of a value"] = wrongValue{d.EnumValues[0].Name, "", true}
		all["lower case"] = wrongValue{value: strings.ToLower(d.EnumValues[0].Name)}
	}
	if d.Kind == ast.InputObject {
		delete(all, "an empty object")
	}
	return all
}

// rightValue returns a value of a type, with its required fields only.
func rightValue(schema *ast.Schema, t *ast.Type) any {
	if t.Elem != nil {
		return []any{}
	}
	d := schema.Types[t.NamedType]
	switch {
	case d.Kind == ast.Enum:
		return enumLiteral(d.EnumValues[0].Name)
	case d.Kind == ast.InputObject:
		input := map[string]any{}
		for _, f := range d.Fields {
			if f.Type.NonNull && f.DefaultValue == nil || len(input) == 0 && d.Directives.ForName("oneOf") != nil {
				input[f.Name] = rightValue(schema, f.Type)
			}
		}
		return input
	case slices.Contains([]string{"Int", "Int64"}, d.Name):
		return 1
	case d.Name == "Boolean":
		return true
	case d.Name == "Time":
		return "2030-01-01T00:00:00Z"
	}
	return "x"
}

// literalOf writes a value as GraphQL does.
func literalOf(value any) string {
	switch value := value.(type) {
	case enumLiteral:
		return string(value)
	case []any:
		var items []string
		for _, item := range value {
			items = append(items, literalOf(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var fields []string
		for name, field := range value {
			fields = append(fields, name+": "+literalOf(field))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// TestArguments_NameTheField expects the path of the argument below the input, for literals and variables.
func TestArguments_NameTheField(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	const create = `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { errors { code } } }`
	link := map[string]any{"url": "https://example.com/", "startsAt": "soon"}
	for query, c := range map[string]struct {
		in   any
		want string
	}{
		`{ node(id: {}) { id } }`:                                                {nil, `["id"]`},
		`{ me { workspaces(first: "x") { edges { cursor } } } }`:                 {nil, `["first"]`},
		`mutation { createLink(input: {workspaceId: "w", url: 5}) { created } }`: {nil, `["url"]`},
		create: {map[string]any{"workspaceId": "w", "links": []any{link}}, `["links","0","startsAt"]`},
		`query ($in: Int) { me { workspaces(first: $in) { edges { cursor } } } }`: {"x", `["first"]`},
	} {
		got := b.ask(t, ada.token, query, "in", c.in)
		if want := `"extensions":{"code":"BAD_REQUEST","field":` + c.want + `}`; !strings.Contains(got.Text, want) {
			t.Errorf("%s: %s, want %s", query, got.Text, want)
		}
	}
}

// TestArguments_NameTheWorkspace calls every mutation of a workspace for one that does not exist.
func TestArguments_NameTheWorkspace(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	schema := gen.NewExecutableSchema(gen.Config{}).Schema()
	called := 0
	for _, f := range schema.Mutation.Fields {
		argument := "workspaceId"
		if strings.HasSuffix(f.Name, "Workspace") && f.Name != "exportWorkspace" {
			argument = "id"
		}
		input := f.Arguments[0].Type
		if schema.Types[input.Name()].Fields.ForName(argument) == nil || f.Name == "createWorkspace" {
			continue
		}
		called++
		r := b.ask(t, ada.token, "mutation { "+f.Name+"(input: "+literalOf(rightValue(schema, input))+
			") { errors { code field } } }")
		if want := `{"data":{"` + f.Name + `":{"errors":[{"code":"NOT_FOUND","field":["` + argument +
			`"]}]}}}`; r.Text != want {
			t.Errorf("%s, want %s", r.Text, want)
		}
	}
	if called < 25 {
		t.Errorf("only %d mutations", called)
	}
}
