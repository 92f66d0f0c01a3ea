package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// introspect asks a server for its schema. ofType goes as deep as [T!]! does.
const introspect = `{ __schema { queryType { name } mutationType { name } subscriptionType { name } types {
	kind name isOneOf
	fields(includeDeprecated: true) { name type { ...ref } args(includeDeprecated: true) { name type { ...ref } } }
	inputFields(includeDeprecated: true) { name type { ...ref } }
	enumValues(includeDeprecated: true) { name }
	possibleTypes { name }
} } } fragment ref on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`

// reference is a type as an argument or a field has it.
type reference struct {
	Kind, Name string
	OfType     *reference
}

// String writes the type as documents do.
func (r *reference) String() string {
	switch r.Kind {
	case "NON_NULL":
		return r.OfType.String() + "!"
	case "LIST":
		return "[" + r.OfType.String() + "]"
	}
	return r.Name
}

// named is the name of the type within lists.
func (r *reference) named() string {
	for r.OfType != nil {
		r = r.OfType
	}
	return r.Name
}

func (r *reference) required() bool { return r.Kind == "NON_NULL" }

func (r *reference) isList() bool { return strings.HasPrefix(r.String(), "[") }

// argument is an argument of a field, or a field of an input.
type argument struct {
	Name string
	Type *reference
}

// field is a field of a type.
type field struct {
	Name string
	Type *reference
	Args []argument
}

// definition is a type of the schema.
type definition struct {
	Kind, Name    string
	IsOneOf       bool
	Fields        []field
	InputFields   []argument
	EnumValues    []struct{ Name string }
	PossibleTypes []struct{ Name string }
}

// leaf says that the type has no fields to select.
func (d *definition) leaf() bool { return d.Kind == "SCALAR" || d.Kind == "ENUM" }

// schema is what a server says of itself.
type schema struct {
	query, mutation string
	types           map[string]*definition
	names           []string // of the types, in their order
}

func schemaOf(t *testing.T, s *server) *schema {
	t.Helper()
	type name struct{ Name string }
	var got struct {
		Schema struct {
			QueryType, MutationType, SubscriptionType *name
			Types                                     []*definition
		} `json:"__schema"`
	}
	client{server: s}.must(t, &got, introspect, nil)
	if got.Schema.SubscriptionType != nil {
		t.Fatal("the schema has subscriptions: the walk knows queries and mutations only, teach it")
	}
	all := &schema{query: got.Schema.QueryType.Name, mutation: got.Schema.MutationType.Name, types: map[string]*definition{}}
	for _, one := range got.Schema.Types {
		if strings.HasPrefix(one.Name, "__") {
			continue // the schema's own description, the same for everybody
		}
		all.types[one.Name] = one
		all.names = append(all.names, one.Name)
	}
	slices.Sort(all.names)
	return all
}

// enum are the values of an enum.
func (s *schema) enum(name string) (all []string) {
	for _, value := range s.types[name].EnumValues {
		all = append(all, value.Name)
	}
	return all
}

// wayTo is the shortest way from the query to something of a type; nil means that there is none.
func (s *schema) wayTo(name string) []step {
	seen := map[string]bool{}
	for ways := [][]step{nil}; len(ways) > 0; ways = ways[1:] {
		d := s.types[s.query]
		if n := len(ways[0]); n > 0 {
			d = s.types[ways[0][n-1].field.Type.named()]
		}
		if d.Name == name {
			return ways[0]
		}
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		for i := range d.Fields {
			ways = append(ways, append(slices.Clone(ways[0]), step{d, &d.Fields[i]}))
		}
	}
	return nil
}

// isRoot says that the type is the query or the mutation.
func (s *schema) isRoot(name string) bool { return name == s.query || name == s.mutation }

// step is a field of a type, on the way to another or itself what is looked for.
type step struct {
	parent *definition
	field  *field
}

func (s step) key() string { return s.parent.Name + "." + s.field.Name }

// fields are all that can be selected.
func (s *schema) fields() (all []step) {
	for _, name := range s.names {
		d := s.types[name]
		for i := range d.Fields {
			all = append(all, step{d, &d.Fields[i]})
		}
	}
	return all
}

// place is somewhere that a value can be put: an argument that is no input, or such a field of an input.
type place struct {
	// key is "Type.field.argument", or "Input.field" wherever the input is used.
	key string
	// argument is the field's argument that it is in, input the input that it is a field of, or the argument itself.
	argument, input string
	// required says that there is no call without it, must that there is no such input without it.
	required, must bool
	// list says that it takes a list.
	list bool
	// oneOf is the input of which only one field may be given, or nothing; firstOfOne says that it is the first of them.
	oneOf      string
	firstOfOne bool
}

// places are those of a field's arguments.
func (s *schema) places(f step) (all []place) {
	for _, a := range f.field.Args {
		for _, p := range s.below(f.key()+"."+a.Name, a, true) {
			p.argument = a.Name
			all = append(all, p)
		}
	}
	return all
}

func (s *schema) below(key string, a argument, needed bool) (all []place) {
	d := s.types[a.Type.named()]
	needed = needed && a.Type.required()
	if d.Kind != "INPUT_OBJECT" {
		return []place{{key: key, input: key, required: needed, must: a.Type.required(), list: a.Type.isList()}}
	}
	for i, f := range d.InputFields {
		for _, p := range s.below(d.Name+"."+f.Name, f, true) {
			if p.input == p.key {
				p.input = d.Name
			}
			if p.required = p.required && needed; d.IsOneOf {
				p.oneOf, p.firstOfOne = d.Name, i == 0
			}
			all = append(all, p)
		}
	}
	return all
}

// picker has what is put into a place, and whether anything is.
type picker func(key string) (any, bool)

// fill makes an argument's value of what pick puts into its places. Of inputs a list has two, of which the first is the
// caller's own.
func (s *schema) fill(key string, a argument, pick, own picker) (any, bool) {
	d := s.types[a.Type.named()]
	if d.Kind != "INPUT_OBJECT" {
		return pick(key)
	}
	object := func(pick picker) (map[string]any, bool) {
		values := map[string]any{}
		for _, f := range d.InputFields {
			if value, ok := s.fill(d.Name+"."+f.Name, f, pick, own); ok {
				values[f.Name] = value
			}
		}
		return values, len(values) > 0 || a.Type.required()
	}
	value, ok := object(pick)
	if !ok || !a.Type.isList() {
		return value, ok
	}
	first, _ := object(own)
	return []any{first, value}, true
}

// selection is a field in a document.
type selection struct {
	step
	// fragment says that the field is in a fragment, since what it is selected of may be of other types.
	fragment bool
	// variables are the names of its arguments' variables.
	variables map[string]string
	children  []*selection
}

// name is what the answer calls the field. Fields of fragments may have one name and different types.
func (n *selection) name() string {
	if n.fragment {
		return n.parent.Name + "_" + n.field.Name
	}
	return n.field.Name
}

// document is an operation, ready to be sent.
type document struct {
	text string
	root *selection
	// fields are the keys of all that it selects.
	fields []string
	// constants are the variables of fields on the way and below.
	constants map[string]any
	// arguments are those of the last field on the way, with the variables' names.
	arguments map[string]argument
}

// writer makes a document.
type writer struct {
	*schema
	constants map[string]any
	defined   []string
	// usual has the value of a place where nothing special is asked for.
	usual picker
}

// document is an operation that selects all that there is behind a way. Only the arguments for which given says so, of
// the last field on the way, are left to whoever sends it.
func (s *schema) document(way []step, given func(a argument) bool, usual picker) *document {
	w := &writer{schema: s, constants: map[string]any{}, usual: usual}
	d := &document{constants: w.constants, arguments: map[string]argument{}}
	var last *selection
	for i, step := range way {
		next := &selection{step: step, variables: map[string]string{}}
		if last == nil {
			d.root = next
		} else {
			last.children = []*selection{next}
		}
		if last = next; i < len(way)-1 {
			w.supply(next)
		}
	}
	for _, a := range last.field.Args {
		if given(a) {
			d.arguments[w.define(last, a)] = a
		}
	}
	w.open(way, last)
	d.root.walk(func(n *selection) { d.fields = append(d.fields, n.key()) })
	kind := "query"
	if d.root.parent.Name == s.mutation {
		kind = "mutation"
	}
	if len(w.defined) > 0 {
		kind += " (" + strings.Join(w.defined, ", ") + ")"
	}
	d.text = kind + " {" + d.root.write() + " }"
	return d
}

func (w *writer) define(n *selection, a argument) string {
	name := fmt.Sprintf("v%d", len(w.defined))
	w.defined = append(w.defined, "$"+name+": "+a.Type.String())
	n.variables[a.Name] = name
	return name
}

// supply gives a field its usual arguments.
func (w *writer) supply(n *selection) {
	for _, a := range n.field.Args {
		if value, ok := w.fill(n.key()+"."+a.Name, a, w.usual, w.usual); ok {
			w.constants[w.define(n, a)] = value
		}
	}
}

// open selects everything behind a field, the nearest first. A type that comes again, or that the way has led through, is
// asked for its leaves only: else there would be no end. A mutation is not asked for connections: they are what
// a query shows.
func (w *writer) open(way []step, root *selection) {
	opened := map[string]bool{}
	for _, step := range way {
		opened[step.parent.Name] = true
	}
	for queue := []*selection{root}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, d := range w.possible(n.field.Type.named()) {
			for i := range d.Fields {
				child := &selection{step: step{d, &d.Fields[i]}, fragment: d.Name != n.field.Type.named(), variables: map[string]string{}}
				kind := child.field.Type.named()
				if !w.types[kind].leaf() && opened[d.Name] && w.hasLeaves(d) || opened[w.mutation] && strings.HasSuffix(kind, "Connection") {
					continue
				}
				w.supply(child)
				n.children, queue = append(n.children, child), append(queue, child)
			}
			opened[d.Name] = true
		}
	}
}

// possible are a type and, of an interface, those that have it.
func (s *schema) possible(name string) []*definition {
	all := []*definition{s.types[name]}
	for _, one := range s.types[name].PossibleTypes {
		all = append(all, s.types[one.Name])
	}
	return all
}

func (s *schema) hasLeaves(d *definition) bool {
	return slices.ContainsFunc(d.Fields, func(f field) bool { return s.types[f.Type.named()].leaf() })
}

func (n *selection) write() string {
	var text strings.Builder
	if text.WriteString(" "); n.name() != n.field.Name {
		text.WriteString(n.name() + ": ")
	}
	text.WriteString(n.field.Name)
	var arguments []string
	for _, a := range n.field.Args {
		if variable, ok := n.variables[a.Name]; ok {
			arguments = append(arguments, a.Name+": $"+variable)
		}
	}
	if len(arguments) > 0 {
		text.WriteString("(" + strings.Join(arguments, ", ") + ")")
	}
	if len(n.children) == 0 {
		return text.String()
	}
	text.WriteString(" {")
	for _, child := range n.children {
		one := child.write()
		if child.fragment {
			one = " ... on " + child.parent.Name + " {" + one + " }"
		}
		text.WriteString(one)
	}
	return text.String() + " }"
}

// walk goes through the selection.
func (n *selection) walk(see func(n *selection)) {
	see(n)
	for _, child := range n.children {
		child.walk(see)
	}
}

// visit goes through the answer to a selection: there sees each field that is there, and what replace returns takes the
// place of a value.
func (n *selection) visit(value any, there func(n *selection), replace func(n *selection, value any) any) any {
	there(n)
	switch value := value.(type) {
	case []any:
		all := make([]any, 0, len(value))
		for _, one := range value {
			all = append(all, n.visit(one, there, replace))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for _, child := range n.children {
			if below, ok := value[child.name()]; ok {
				all[child.name()] = child.visit(below, there, replace)
			}
		}
		return replace(n, all)
	}
	return replace(n, value)
}

// decode reads an answer, with numbers as they were written.
func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var got map[string]any
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v: %.500s", err, body)
	}
	return got
}
