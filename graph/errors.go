package graph

import (
	"reflect"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// userErrors returns an error that the client can fix as the errors of a payload, and any other
// error as it is.
func userErrors(err error) ([]*gen.UserError, error) {
	if err == nil {
		return []*gen.UserError{}, nil
	}
	e := errs.From(err)
	if !e.Kind.IsUserError() {
		return nil, err
	}
	return []*gen.UserError{{Message: e.Public(), Code: gen.ErrorCode(e.Kind.Code()), Field: e.Field}}, nil
}

// payloadOrErrors returns the payload of a mutation: the resolver's payload without user errors, or
// an empty one with them. Resolvers do not set the field Errors. Any other error is an error of the
// request.
func payloadOrErrors(payload any, err error) (any, error) {
	failed := err != nil
	found, err := userErrors(err)
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
