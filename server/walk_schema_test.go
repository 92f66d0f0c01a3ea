package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// schema is that of the server.
type schema struct {
	*ast.Schema
	query, mutation, subscription string

	names []string // of the types, in their order
}

func schemaOf(t *testing.T) *schema {
	t.Helper()
	parsed, err := gqlparser.LoadSchema(&ast.Source{Input: readFile(t, "../schema.graphql")})
	must.NoError(t, err)
	// the schema's own description is public
	parsed.Query.Fields = slices.DeleteFunc(parsed.Query.Fields, func(f *ast.FieldDefinition) bool {
		return strings.HasPrefix(f.Name, "__")
	})
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(parsed.Types)), func(name string) bool {
		return strings.HasPrefix(name, "__")
	})
	return &schema{parsed, parsed.Query.Name, parsed.Mutation.Name, parsed.Subscription.Name, names}
}

// enum are the values of an enum.
func (s *schema) enum(name string) (all []string) {
	for _, value := range s.Types[name].EnumValues {
		all = append(all, value.Name)
	}
	return all
}

// wayTo is the shortest path from the query to a type; nil if there is none.
func (s *schema) wayTo(name string) []step {
	seen := map[string]bool{}
	for ways := [][]step{nil}; len(ways) > 0; ways = ways[1:] {
		types := []*ast.Definition{s.Types[s.query]}
		if n := len(ways[0]); n > 0 {
			types = s.reachable(ways[0][n-1].field.Type.Name())
		}
		for _, d := range types {
			if d.Name == name {
				return ways[0]
			}
			if seen[d.Name] {
				continue
			}
			seen[d.Name] = true
			for _, f := range d.Fields {
				ways = append(ways, append(slices.Clone(ways[0]), step{d, f}))
			}
		}
	}
	return nil
}

// reachable returns a type and, for a union, its members. The types of an interface are reached by their own fields.
func (s *schema) reachable(name string) []*ast.Definition {
	if s.Types[name].Kind == ast.Union {
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
	parent *ast.Definition
	field  *ast.FieldDefinition
}

func (s step) key() string { return s.parent.Name + "." + s.field.Name }

// fields are all that can be selected.
func (s *schema) fields() (all []step) {
	for _, name := range s.names {
		d := s.Types[name]
		if d.Kind == ast.InputObject {
			continue
		}
		for _, f := range d.Fields {
			all = append(all, step{d, f})
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
	for _, a := range f.field.Arguments {
		for _, p := range s.below(f.key()+"."+a.Name, a, true) {
			p.argument = a.Name
			all = append(all, p)
		}
	}
	return all
}

func (s *schema) below(key string, a *ast.ArgumentDefinition, needed bool) (all []place) {
	d := s.Types[a.Type.Name()]
	needed = needed && a.Type.NonNull
	if _, whole := fillerOf(key); whole || d.Kind != ast.InputObject {
		return []place{{key: key, input: key, required: needed, must: a.Type.NonNull, list: a.Type.Elem != nil}}
	}
	for i, f := range d.Fields {
		for _, p := range s.below(d.Name+"."+f.Name, asArgument(f), true) {
			if p.input == p.key {
				p.input = d.Name
			}
			if p.required = p.required && needed; d.Directives.ForName("oneOf") != nil {
				p.oneOf, p.oneField, p.firstOfOne = d.Name, f.Name, i == 0
			}
			all = append(all, p)
		}
	}
	return all
}

// asArgument returns a field of an input as an argument.
func asArgument(f *ast.FieldDefinition) *ast.ArgumentDefinition {
	return &ast.ArgumentDefinition{Name: f.Name, Type: f.Type}
}

// picker returns the value of a place, if it has one.
type picker func(key string) (any, bool)

// fill builds an argument's value from the values of its places. A list of inputs has
// two values, first the caller's own.
func (s *schema) fill(key string, a *ast.ArgumentDefinition, pick, own picker) (any, bool) {
	d := s.Types[a.Type.Name()]
	if _, whole := fillerOf(key); whole || d.Kind != ast.InputObject {
		return pick(key)
	}
	object := func(pick picker) (map[string]any, bool) {
		values := map[string]any{}
		for _, f := range d.Fields {
			if value, ok := s.fill(d.Name+"."+f.Name, asArgument(f), pick, own); ok {
				values[f.Name] = value
			}
		}
		return values, len(values) > 0 || a.Type.NonNull
	}
	value, ok := object(pick)
	if !ok || a.Type.Elem == nil {
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
