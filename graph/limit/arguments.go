package limit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// ValidationRules returns the rules of the GraphQL library without its check of literals, which
// accepts an object as a scalar and any literal as a custom scalar. Arguments checks literals and
// variables alike.
func ValidationRules() *rules.Rules {
	all := rules.NewDefaultRules()
	all.RemoveRule(rules.ValuesOfCorrectTypeRule.Name)
	return all
}

// Arguments refuses an operation with BadRequest before it is executed, if an argument of a field
// or a directive does not have the type of the schema
// (https://spec.graphql.org/October2021/#sec-Values.Input-Coercion).
type Arguments struct {
	schema *ast.Schema
}

func (*Arguments) ExtensionName() string { return "ArgumentCheck" }

func (c *Arguments) Validate(schema graphql.ExecutableSchema) error {
	c.schema = schema.Schema()
	return nil
}

func (c *Arguments) MutateOperationContext(_ context.Context, o *graphql.OperationContext) *gqlerror.Error {
	return c.check(o, o.Variables)
}

// check returns the first argument with a wrong value, in the operation to execute, or else as a
// literal in another operation of the document. The document must have passed ValidationRules.
func (c *Arguments) check(o *graphql.OperationContext, variables map[string]any) *gqlerror.Error {
	w := argumentWalk{schema: c.schema, variables: variables}
	problem := w.operation(o.Operation)
	for _, other := range o.Doc.Operations {
		if other != o.Operation && problem == nil {
			w := argumentWalk{schema: c.schema, literalsOnly: true}
			problem = w.operation(other)
		}
	}
	return problem
}

// operation returns the first argument with a wrong value.
func (w *argumentWalk) operation(operation *ast.OperationDefinition) *gqlerror.Error {
	w.definitions, w.checked = operation.VariableDefinitions, map[string]bool{}
	for _, v := range operation.VariableDefinitions {
		w.directives(v.Directives)
		if v.DefaultValue != nil {
			w.position, w.start = v.DefaultValue.Position, len(w.path)
			w.withPath(ast.PathName("$"+v.Variable), func() { w.value(v.Type, w.literal(v.DefaultValue)) })
		}
	}
	w.directives(operation.Directives)
	w.selections(operation.SelectionSet)
	return w.problem
}

// ReplaceVariableProblem returns the problems of an operation. If the GraphQL library has refused a
// variable, the problem names the argument that uses it instead, and not the value.
func (c *Arguments) ReplaceVariableProblem(
	o *graphql.OperationContext, variables map[string]any, problems gqlerror.List,
) gqlerror.List {
	if len(problems) == 0 || len(problems[0].Path) == 0 || problems[0].Path[0] != ast.PathName("variable") {
		return problems
	}
	unnamed := Refusal(errs.BadRequest, "A variable has a value of another type than declared.")
	unnamed.Extensions["field"] = fieldOf(problems[0].Path[1:])
	return gqlerror.List{cmp.Or(c.check(o, variables), unnamed)}
}

// argumentWalk visits the arguments of one operation up to the first wrong value.
type argumentWalk struct {
	schema      *ast.Schema
	definitions ast.VariableDefinitionList
	variables   map[string]any
	// literalsOnly is true for an operation that is not executed, whose variables have no values.
	literalsOnly bool
	// checked holds the variables ($name) and fragments that need no second check.
	checked map[string]bool
	// inVariable is true within the value of a variable, where enum values are strings.
	inVariable bool
	// start is where the argument begins in the path.
	path     ast.Path
	start    int
	position *ast.Position
	problem  *gqlerror.Error
}

// withPath calls visit with the element appended to the current path.
func (w *argumentWalk) withPath(element ast.PathElement, visit func()) {
	w.path = append(w.path, element)
	visit()
	w.path = w.path[:len(w.path)-1]
}

// fail records the first problem, with the path and the position of the argument.
func (w *argumentWalk) fail(format string, args ...any) {
	if w.problem != nil {
		return
	}
	w.problem = Refusal(errs.BadRequest, w.path.String()+": "+fmt.Sprintf(format, args...))
	w.problem.Path = slices.Clone(w.path)
	w.problem.Extensions["field"] = fieldOf(w.path[w.start:])
	if w.position != nil {
		w.problem.Locations = []gqlerror.Location{{Line: w.position.Line, Column: w.position.Column}}
	}
}

// fieldOf returns the path of an argument as UserError.field has it: below the input of a mutation.
func fieldOf(path ast.Path) (field []string) {
	if len(path) > 1 && path[0] == ast.PathName("input") {
		path = path[1:]
	}
	for _, element := range path {
		field = append(field, fmt.Sprint(element))
	}
	return field
}

// firstVisit reports whether the name is new.
func (w *argumentWalk) firstVisit(name string) bool {
	known := w.checked[name]
	w.checked[name] = true
	return !known
}

func (w *argumentWalk) selections(all ast.SelectionSet) {
	for _, s := range all {
		if w.problem != nil {
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			w.withPath(ast.PathName(s.Alias), func() {
				w.arguments(s.Definition.Arguments, s.Arguments)
				w.directives(s.Directives)
				w.selections(s.SelectionSet)
			})
		case *ast.InlineFragment:
			w.directives(s.Directives)
			w.selections(s.SelectionSet)
		case *ast.FragmentSpread:
			w.directives(s.Directives)
			if w.firstVisit(s.Name) {
				w.directives(s.Definition.Directives)
				w.selections(s.Definition.SelectionSet)
			}
		}
	}
}

func (w *argumentWalk) directives(all ast.DirectiveList) {
	for _, d := range all {
		w.withPath(ast.PathName("@"+d.Name), func() { w.arguments(d.Definition.Arguments, d.Arguments) })
	}
}

func (w *argumentWalk) arguments(definitions ast.ArgumentDefinitionList, given ast.ArgumentList) {
	for _, a := range given {
		w.position, w.start = a.Position, len(w.path)
		w.withPath(ast.PathName(a.Name), func() { w.value(definitions.ForName(a.Name).Type, w.literal(a.Value)) })
	}
}

// Literals that JSON does not have.
type (
	enumName     string
	usedVariable string
)

// literal returns a value of the document as JSON would have it. An unset variable in an object
// leaves its field out.
func (w *argumentWalk) literal(v *ast.Value) any {
	switch v.Kind {
	case ast.Variable:
		return usedVariable(v.Raw)
	case ast.IntValue, ast.FloatValue:
		return json.Number(v.Raw)
	case ast.BooleanValue:
		return v.Raw == "true"
	case ast.NullValue:
		return nil
	case ast.EnumValue:
		return enumName(v.Raw)
	case ast.ListValue:
		items := make([]any, len(v.Children))
		for i, child := range v.Children {
			items[i] = w.literal(child.Value)
		}
		return items
	case ast.ObjectValue:
		fields := make(map[string]any, len(v.Children))
		for _, child := range v.Children {
			if child.Value.Kind != ast.Variable || w.isSet(child.Value.Raw) {
				fields[child.Name] = w.literal(child.Value)
			}
		}
		return fields
	}
	return v.Raw
}

// isSet reports whether a variable has a value, or must have one.
func (w *argumentWalk) isSet(name string) bool {
	_, given := w.variables[name]
	definition := w.definitions.ForName(name)
	return given || definition.Type.NonNull || definition.DefaultValue != nil
}

// value checks a value against a type.
func (w *argumentWalk) value(t *ast.Type, v any) {
	if w.problem != nil {
		return
	}
	if name, ok := v.(usedVariable); ok {
		w.variable(t, string(name))
		return
	}
	if v == nil {
		if t.NonNull {
			w.fail("A value of the type %s is required.", t)
		}
		return
	}
	if t.Elem != nil {
		w.list(t.Elem, v)
		return
	}
	switch definition := w.schema.Types[t.NamedType]; definition.Kind {
	case ast.InputObject:
		w.object(definition, v)
	case ast.Enum:
		w.enum(definition, v)
	default:
		if definition.Name == entityRepresentation {
			w.representation(v)
		} else if err := Check(definition.Name, v); err != nil {
			w.fail("%s", errs.From(err).Public())
		}
	}
}

// entityRepresentation is the scalar by which gateways of Apollo Federation name an object, and
// entityUnion the types that it may have.
const entityRepresentation, entityUnion = "_Any", "_Entity"

// representation checks the parts of a representation that this server reads. Others may belong to
// keys of other subgraphs.
func (w *argumentWalk) representation(v any) {
	object, _ := v.(map[string]any)
	name, _ := object["__typename"].(string)
	if !slices.Contains(w.schema.Types[entityUnion].Types, name) || Check("ID", object["id"]) != nil {
		w.fail("A representation has the __typename of a type that implements Node, and an id. " +
			"Pass representations as a variable.")
	}
}

// variable checks that a variable is not null where it must not be, and its value at the first use.
func (w *argumentWalk) variable(t *ast.Type, name string) {
	definition, v := w.definitions.ForName(name), w.variables[name]
	_, given := w.variables[name]
	switch {
	case w.literalsOnly:
	case !given && definition.DefaultValue != nil: // operation has checked it
	case v == nil && !t.NonNull && !definition.Type.NonNull:
	case v == nil:
		w.fail("A value of the type %s is required.", t)
	case w.firstVisit("$" + name):
		w.inVariable = true
		w.value(definition.Type, v)
		w.inVariable = false
	}
}

// list checks the items of a list. A single value stands for a list of one.
func (w *argumentWalk) list(element *ast.Type, v any) {
	items := reflect.ValueOf(v)
	if items.Kind() != reflect.Slice { // the GraphQL library has lists of other types than []any
		w.value(element, v)
		return
	}
	for i := range items.Len() {
		w.withPath(ast.PathIndex(i), func() { w.value(element, items.Index(i).Interface()) })
	}
}

func (w *argumentWalk) enum(definition *ast.Definition, v any) {
	name, ok := v.(enumName)
	if text, isText := v.(string); isText && w.inVariable {
		name, ok = enumName(text), true
	}
	if !ok || definition.EnumValues.ForName(string(name)) == nil {
		w.fail("The value must be %s, spelled so.", enumValues(definition))
	}
}

// maxListedValues bounds the values of an enum that a message lists.
const maxListedValues = 30

// enumValues lists the values of an enum for a message.
func enumValues(definition *ast.Definition) string {
	var names []string
	for _, v := range definition.EnumValues[:min(maxListedValues, len(definition.EnumValues))] {
		names = append(names, v.Name)
	}
	if more := len(definition.EnumValues) - len(names); more > 0 {
		return fmt.Sprintf("one of %s and %d more of the enum %s", strings.Join(names, ", "), more, definition.Name)
	}
	return "one of " + strings.Join(names, ", ")
}

func (w *argumentWalk) object(definition *ast.Definition, v any) {
	input, ok := v.(map[string]any)
	if !ok {
		w.fail("The value must be an object of the type %s.", definition.Name)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(input)) {
		if definition.Fields.ForName(name) == nil {
			w.fail("The type %s has no field %.40q. %s", definition.Name, name, w.remedyFor(definition, name))
			return
		}
	}
	for _, field := range definition.Fields {
		given, ok := input[field.Name]
		if ok || field.Type.NonNull && field.DefaultValue == nil {
			w.withPath(ast.PathName(field.Name), func() { w.value(field.Type, given) })
		}
	}
	values := slices.Collect(maps.Values(input))
	if definition.Directives.ForName("oneOf") != nil && (len(values) != 1 || values[0] == nil) {
		w.fail("Give exactly one of the fields of %s, and not null.", definition.Name)
	}
}

// maxHintDepth bounds how deep a field is sought that was given at a wrong place.
const maxHintDepth = 3

// remedyFor says where a field belongs that an input type does not have, such as to
// routing.gate.password.
func (w *argumentWalk) remedyFor(in *ast.Definition, name string) string {
	for depth := range maxHintDepth {
		if at := w.nested(in, name, depth+1); at != "" {
			return "It is " + at + "."
		}
	}
	return "Remove it."
}

// nested returns the path of the first field with a name at a depth, or an empty text.
func (w *argumentWalk) nested(in *ast.Definition, name string, depth int) string {
	if depth == 0 {
		if in.Fields.ForName(name) != nil {
			return name
		}
		return ""
	}
	for _, field := range in.Fields {
		of := w.schema.Types[field.Type.NamedType] // none of a list, which may have several
		if of == nil || of.Kind != ast.InputObject {
			continue
		}
		if at := w.nested(of, name, depth-1); at != "" {
			return field.Name + "." + at
		}
	}
	return ""
}
