package linkforge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// breaks lists the changes of the schema that break existing clients, one sentence each.
func breaks(old, new *ast.Schema) []string {
	var c comparison
	c.roots(old, new)
	for _, name := range slices.Sorted(maps.Keys(old.Types)) {
		c.types(old, new, old.Types[name])
	}
	for _, name := range slices.Sorted(maps.Keys(old.Directives)) {
		c.directives(old.Directives[name], new.Directives[name])
	}
	return c.found
}

// comparison gathers breaking changes.
type comparison struct{ found []string }

func (c *comparison) say(format string, values ...any) {
	c.found = append(c.found, fmt.Sprintf(format, values...))
}

func (c *comparison) roots(old, new *ast.Schema) {
	for kind, pair := range map[string][2]*ast.Definition{
		"query": {old.Query, new.Query}, "mutation": {old.Mutation, new.Mutation},
		"subscription": {old.Subscription, new.Subscription},
	} {
		if was := pair[0]; was != nil && (pair[1] == nil || pair[1].Name != was.Name) {
			c.say("the root type of kind %s is no longer %s", kind, was.Name)
		}
	}
}

func (c *comparison) types(old, new *ast.Schema, was *ast.Definition) {
	is := new.Types[was.Name]
	if is == nil {
		c.say("the type %s was removed", was.Name)
		return
	}
	if is.Kind != was.Kind {
		c.say("the type %s was %s and is %s", was.Name, was.Kind, is.Kind)
		return
	}
	for _, one := range was.Interfaces {
		if !slices.Contains(is.Interfaces, one) {
			c.say("%s no longer implements %s", was.Name, one)
		}
	}
	for _, one := range was.Types {
		if !slices.Contains(is.Types, one) {
			c.say("%s was removed from the union %s", one, was.Name)
		}
	}
	for _, one := range was.EnumValues {
		if is.EnumValues.ForName(one.Name) == nil {
			c.say("the value %s was removed from the enum %s", one.Name, was.Name)
		}
	}
	if was.Kind == ast.InputObject {
		c.inputs(was, is)
		return
	}
	for _, f := range was.Fields {
		c.field(old, new, was.Name, f, is.Fields.ForName(f.Name))
	}
}

func (c *comparison) field(old, new *ast.Schema, of string, was, is *ast.FieldDefinition) {
	name := of + "." + was.Name
	if is == nil {
		c.say("the field %s was removed", name)
		return
	}
	if !answers(new, was.Type, is.Type) {
		c.say("the field %s was of type %s and is of type %s", name, was.Type, is.Type)
	}
	c.arguments(name, was.Arguments, is.Arguments)
}

func (c *comparison) arguments(of string, was, is ast.ArgumentDefinitionList) {
	for _, a := range was {
		now := is.ForName(a.Name)
		if now == nil {
			c.say("the argument %s of %s was removed", a.Name, of)
			continue
		}
		c.given("argument "+a.Name+" of "+of, a.Type, now.Type, a.DefaultValue, now.DefaultValue)
	}
	for _, a := range is {
		if was.ForName(a.Name) == nil && a.Type.NonNull && a.DefaultValue == nil {
			c.say("%s has a new argument %s that is required", of, a.Name)
		}
	}
}

func (c *comparison) inputs(was, is *ast.Definition) {
	if was.Directives.ForName("oneOf") == nil && is.Directives.ForName("oneOf") != nil {
		c.say("the input %s takes only one of its fields now", was.Name)
	}
	for _, f := range was.Fields {
		now := is.Fields.ForName(f.Name)
		if now == nil {
			c.say("the field %s was removed from the input %s", f.Name, was.Name)
			continue
		}
		c.given("field "+f.Name+" of the input "+was.Name, f.Type, now.Type, f.DefaultValue, now.DefaultValue)
	}
	for _, f := range is.Fields {
		if was.Fields.ForName(f.Name) == nil && f.Type.NonNull && f.DefaultValue == nil {
			c.say("the input %s has a new field %s that is required", was.Name, f.Name)
		}
	}
}

// given compares what callers give. A default that is new changes what leaving it out means, as any
// other change of it does.
func (c *comparison) given(what string, was, is *ast.Type, before, now *ast.Value) {
	if !takes(was, is) {
		c.say("the %s was of type %s and is of type %s", what, was, is)
	}
	if written(before) != written(now) {
		c.say("the %s had the default %s and has %s", what, written(before), written(now))
	}
}

func written(v *ast.Value) string {
	if v == nil {
		return "none"
	}
	return v.String()
}

func (c *comparison) directives(was, is *ast.DirectiveDefinition) {
	if is == nil {
		c.say("the directive @%s was removed", was.Name)
		return
	}
	for _, one := range was.Locations {
		if !slices.Contains(is.Locations, one) {
			c.say("the directive @%s may no longer be at %s", was.Name, one)
		}
	}
	if was.IsRepeatable && !is.IsRepeatable {
		c.say("the directive @%s may no longer be repeated", was.Name)
	}
	c.arguments("@"+was.Name, was.Arguments, is.Arguments)
}

// answers reports whether clients of the old output type can read the new one.
func answers(s *ast.Schema, was, is *ast.Type) bool {
	if was.NonNull && !is.NonNull || (was.Elem == nil) != (is.Elem == nil) {
		return false
	}
	if was.Elem != nil {
		return answers(s, was.Elem, is.Elem)
	}
	if was.NamedType == is.NamedType {
		return true
	}
	wide := s.Types[was.NamedType]
	return wide != nil && wide.IsAbstractType() &&
		slices.ContainsFunc(s.GetPossibleTypes(wide), func(d *ast.Definition) bool { return d.Name == is.NamedType })
}

// takes reports whether every value of the old input type is valid for the new one.
func takes(was, is *ast.Type) bool {
	if is.NonNull && !was.NonNull || (was.Elem == nil) != (is.Elem == nil) {
		return false
	}
	if was.Elem != nil {
		return takes(was.Elem, is.Elem)
	}
	return was.NamedType == is.NamedType
}

func parse(t *testing.T, sdl string) *ast.Schema {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "contract", Input: sdl})
	if err != nil {
		t.Fatalf("%v:\n%s", err, sdl)
	}
	return schema
}

// TestBreaks_AreFound changes one thing of a small schema at a time.
func TestBreaks_AreFound(t *testing.T) {
	t.Parallel()
	const base = `
		directive @mark(level: Int = 1) repeatable on FIELD | QUERY
		interface Named { name: String }
		type Cat implements Named { name: String lives: Int! tags: [String!]! friend: Named }
		type Dog implements Named { name: String }
		type Fish { fins: Int }
		union Pet = Cat | Dog
		enum Mood { GOOD BAD }
		input Wish { text: String! mood: Mood = GOOD many: [Int] }
		type Query { pet(id: ID!, wish: Wish, first: Int = 20): Pet cat: Cat mood: Mood }
		type Mutation { feed(cat: ID!): Cat }`
	for _, c := range []struct{ name, from, to, want string }{
		{"a type", "type Fish { fins: Int }", "", "the type Fish was removed"},
		{"a kind", "enum Mood { GOOD BAD }", "scalar Mood", "the type Mood was ENUM and is SCALAR"},
		{"a field", "lives: Int!", "", "the field Cat.lives was removed"},
		{"a field's type", "lives: Int!", "lives: String!",
			"the field Cat.lives was of type Int! and is of type String!"},
		{"a field that may be null", "lives: Int!", "lives: Int",
			"the field Cat.lives was of type Int! and is of type Int"},
		{"items that may be null", "tags: [String!]!", "tags: [String]!",
			"the field Cat.tags was of type [String!]! and is of type [String]!"},
		{"a list", "tags: [String!]!", "tags: String!",
			"the field Cat.tags was of type [String!]! and is of type String!"},
		{"a wider type", "cat: Cat mood", "cat: Named mood",
			"the field Query.cat was of type Cat and is of type Named"},
		{"an argument", "id: ID!, wish: Wish", "id: ID!", "the argument wish of Query.pet was removed"},
		{"an argument's type", "pet(id: ID!", "pet(id: Int!",
			"the argument id of Query.pet was of type ID! and is of type Int!"},
		{"an argument that must be", "wish: Wish,", "wish: Wish!,",
			"the argument wish of Query.pet was of type Wish and is of type Wish!"},
		{"a new argument", "pet(id: ID!", "pet(id: ID!, age: Int!",
			"Query.pet has a new argument age that is required"},
		{"no default", "first: Int = 20", "first: Int",
			"the argument first of Query.pet had the default 20 and has none"},
		{"a new default", "many: [Int]", "many: [Int] = [1]",
			"the field many of the input Wish had the default none and has [1]"},
		{"an enum's value", "GOOD BAD }", "GOOD }", "the value BAD was removed from the enum Mood"},
		{"an input's field", "many: [Int]", "", "the field many was removed from the input Wish"},
		{"a new field of an input", "many: [Int]", "many: [Int] more: Int!",
			"the input Wish has a new field more that is required"},
		{"an input's items", "many: [Int]", "many: [Int!]",
			"the field many of the input Wish was of type [Int] and is of type [Int!]"},
		{"an input's default", "mood: Mood = GOOD", "mood: Mood = BAD",
			"the field mood of the input Wish had the default GOOD and has BAD"},
		{"one of many", "input Wish { text: String! mood: Mood = GOOD", "input Wish @oneOf { text: String mood: Mood",
			"the input Wish takes only one of its fields now\n" +
				"the field mood of the input Wish had the default GOOD and has " +
				"none"},
		{"a union's member", "union Pet = Cat | Dog", "union Pet = Cat", "Dog was removed from the union Pet"},
		{"an interface's member", "type Dog implements Named", "type Dog", "Dog no longer implements Named"},
		{"a root", "type Mutation { feed(cat: ID!): Cat }", "",
			"the root type of kind mutation is no longer Mutation\nthe type Mutation was removed"},
		{"a directive", "directive @mark(level: Int = 1) repeatable on FIELD | QUERY", "",
			"the directive @mark was removed"},
		{"a directive's place", "FIELD | QUERY", "FIELD", "the directive @mark may no longer be at QUERY"},
		{"a directive's argument", "@mark(level: Int = 1)", "@mark", "the argument level of @mark was removed"},
		{"a directive that comes once", "repeatable on", "on", "the directive @mark may no longer be repeated"},

		{"nothing", "", "", ""},
		{"a new field", "lives: Int!", "lives: Int! age(of: Int!): Int", ""},
		{"a field that is never null", "friend: Named", "friend: Named!", ""},
		{"a narrower type", "friend: Named", "friend: Cat", ""},
		{"a new argument that need not be", "pet(id: ID!", "pet(id: ID!, age: Int, size: Int! = 1", ""},
		{"an argument that need not be", "pet(id: ID!", "pet(id: ID", ""},
		{"a new value", "GOOD BAD }", "GOOD BAD UGLY }", ""},
		{"a new field of an input that need not be", "many: [Int]", "many: [Int] more: Int size: Int! = 1", ""},
		{"a new member", "type Mutation", "type Bird { a: Int } extend union Pet = Bird type Mutation", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(base, c.from, c.to, 1)
			if c.from != "" && changed == base {
				t.Fatal("the case changes nothing")
			}
			got := strings.Join(breaks(parse(t, base), parse(t, changed)), "\n")
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
