package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// introspect queries the schema of a server. ofType goes as deep as [T!]! does.
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

// leaf reports whether the type has no fields to select.
func (d *definition) leaf() bool { return d.Kind == "SCALAR" || d.Kind == "ENUM" }

// schema is a server's introspection result.
type schema struct {
	query, mutation, subscription string

	types map[string]*definition
	names []string // of the types, in their order
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
	all := &schema{
		query: got.Schema.QueryType.Name, mutation: got.Schema.MutationType.Name,
		subscription: got.Schema.SubscriptionType.Name,
		types:        map[string]*definition{},
	}
	for _, one := range got.Schema.Types {
		if strings.HasPrefix(one.Name, "__") {
			continue // the schema's own description is public
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

// wayTo is the shortest path from the query to a type; nil if there is none.
func (s *schema) wayTo(name string) []step {
	seen := map[string]bool{}
	for ways := [][]step{nil}; len(ways) > 0; ways = ways[1:] {
		types := []*definition{s.types[s.query]}
		if n := len(ways[0]); n > 0 {
			types = s.reachable(ways[0][n-1].field.Type.named())
		}
		for _, d := range types {
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
	}
	return nil
}

// reachable returns a type and, for a union, its members. The types of an interface are reached by their own fields.
func (s *schema) reachable(name string) []*definition {
	if s.types[name].Kind == "UNION" {
		return s.possible(name)
	}
	return s.possible(name)[:1]
}

// isRoot reports whether the type is the query, the mutation or the subscription.
func (s *schema) isRoot(name string) bool {
	return name == s.query || name == s.mutation || name == s.subscription
}

// step is a field on the path to a target, or the target.
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

// place is somewhere that a value can be put: an argument that is no input, or such a field of an
// input.
type place struct {
	// key is "Type.field.argument", or "Input.field" wherever the input is used.
	key string
	// argument is the field's argument that it is in, input the input that it is a field of, or the
	// argument itself.
	argument, input string
	// required: the call needs it; must: its input needs it.
	required, must bool
	// list reports whether the place takes a list.
	list bool
	// oneOf is the input that accepts only one field, or empty; oneField is the field that the place
	// is part of, and firstOfOne marks the first.
	oneOf, oneField string
	firstOfOne      bool
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
	if _, whole := fillerOf(key); whole || d.Kind != "INPUT_OBJECT" {
		return []place{{key: key, input: key, required: needed, must: a.Type.required(), list: a.Type.isList()}}
	}
	for i, f := range d.InputFields {
		for _, p := range s.below(d.Name+"."+f.Name, f, true) {
			if p.input == p.key {
				p.input = d.Name
			}
			if p.required = p.required && needed; d.IsOneOf {
				p.oneOf, p.oneField, p.firstOfOne = d.Name, f.Name, i == 0
			}
			all = append(all, p)
		}
	}
	return all
}

// picker returns the value of a place, if it has one.
type picker func(key string) (any, bool)

// fill builds an argument's value from the values of its places. A list of inputs has
// two values, first the caller's own.
func (s *schema) fill(key string, a argument, pick, own picker) (any, bool) {
	d := s.types[a.Type.named()]
	if _, whole := fillerOf(key); whole || d.Kind != "INPUT_OBJECT" {
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
