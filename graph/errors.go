package graph

import (
	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/errs"
)

// userErrors returns an error that the client can fix as the errors of a payload, and any other error as it is.
func userErrors(err error) ([]*gen.UserError, error) {
	if err == nil {
		return []*gen.UserError{}, nil
	}
	e := errs.From(err)
	if !e.Kind.Mendable() {
		return nil, err
	}
	return []*gen.UserError{{Message: e.Public(), Code: gen.ErrorCode(e.Kind.Code()), Field: e.Field}}, nil
}

// orNull returns null for an object that does not exist.
func orNull[T any](value *T, err error) (*T, error) {
	if errs.Is(err, errs.NotFound) {
		return nil, nil
	}
	return value, err
}
