package graph

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// userErrors returns errors that the client can fix as the errors of a payload, in the order of the
// fields of the type of the input, and any other error as it is.
func userErrors(err error, input string) ([]*gen.UserError, error) {
	found := []*gen.UserError{}
	if err == nil {
		return found, nil
	}
	first := errs.From(err)
	if !first.Kind.IsUserError() {
		return nil, err
	}
	for _, e := range first.Each() {
		found = append(found, &gen.UserError{Message: e.Public(), Code: gen.ErrorCode(e.Kind.Code()), Field: e.Field})
	}
	slices.SortStableFunc(found, func(a, b *gen.UserError) int {
		return slices.Compare(positionOf(input, a.Field), positionOf(input, b.Field))
	})
	return found, nil
}

// schema is that of the API.
var schema = gen.NewExecutableSchema(gen.Config{}).Schema()

// positionOf returns the positions of the elements of a path below an input: indexes of lists, and
// positions of fields in their types.
func positionOf(input string, path []string) (at []int) {
	for _, name := range path {
		if i, err := strconv.Atoi(name); err == nil {
			at = append(at, i)
			continue
		}
		var fields ast.FieldList
		if definition := schema.Types[input]; definition != nil {
			fields = definition.Fields
		}
		i := slices.IndexFunc(fields, func(f *ast.FieldDefinition) bool { return f.Name == name })
		if at = append(at, i); i < 0 {
			return at
		}
		input = fields[i].Type.Name()
	}
	return at
}

// payloadOrErrors returns the payload of a mutation with an input: the resolver's payload without user errors, or
// an empty one with them. Resolvers do not set the field Errors. Any other error is an error of the
// request.
func payloadOrErrors(payload any, err error, input string) (any, error) {
	failed := err != nil
	found, err := userErrors(err, input)
	if err != nil {
		return nil, err
	}
	p := reflect.ValueOf(payload)
	if failed {
		p = reflect.New(p.Type().Elem())
	}
	p.Elem().FieldByName("Errors").Set(reflect.ValueOf(found))
	return p.Interface(), nil
}

// eachError returns the errors of the arguments of a field as errors of their own, in the order of the
// schema, and any other error as it is.
func eachError(err error, field *ast.FieldDefinition) error {
	if err == nil || len(errs.From(err).Others) == 0 {
		return err
	}
	all := errs.From(err).Each()
	position := func(e *errs.Error) []int {
		at := slices.IndexFunc(field.Arguments, func(a *ast.ArgumentDefinition) bool {
			return len(e.Field) > 0 && a.Name == e.Field[0]
		})
		if at < 0 {
			return nil
		}
		return append([]int{at}, positionOf(field.Arguments[at].Type.Name(), e.Field[1:])...)
	}
	slices.SortStableFunc(all, func(a, b *errs.Error) int { return slices.Compare(position(a), position(b)) })
	list := make(gqlerror.List, 0, len(all))
	for _, e := range all {
		list = append(list, gqlerror.Wrap(e))
	}
	return list
}

// notFoundAt returns NotFound with the argument at fault, and any other error as it is.
func notFoundAt(err error, argument string) error {
	if errs.Is(err, errs.NotFound) {
		return errs.From(err).At(argument)
	}
	return err
}

// ifFound returns null for an object that does not exist.
func ifFound[T any](value *T, err error) (*T, error) {
	if errs.Is(err, errs.NotFound) {
		return nil, nil
	}
	return value, err
}
