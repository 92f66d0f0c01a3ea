package graph

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/errs"
)

// panicked is a resolver's panic.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// userErrors sorts a mutation's error: what the caller can mend goes into the payload, the rest stays an error.
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

// orNull makes what does not exist null.
func orNull[T any](value *T, err error) (*T, error) {
	if errs.Is(err, errs.NotFound) {
		return nil, nil
	}
	return value, err
}

// present makes the error that a caller sees: a message, where, and extensions.code. What broke on our side is
// logged here, once, and not shown.
func (r *resolver) present(ctx context.Context, err error) *gqlerror.Error {
	shown := graphql.DefaultErrorPresenter(ctx, err)
	if code, ok := requestError(err); ok {
		shown.Extensions = map[string]any{"code": code.Code()}
		shown.Message = r.libraryMessage(shown.Message)
		return shown
	}
	e := errs.From(err)
	if e.Kind == errs.Internal && ctx.Err() != nil {
		e = errs.New(errs.Unavailable, "The operation took too long and was ended.").Because(err)
	}
	r.logBroken(ctx, e, shown)
	shown.Message = e.Public()
	shown.Extensions = map[string]any{"code": e.Kind.Code()}
	if e.RetryAfter > 0 {
		shown.Extensions["retryAfter"] = int(e.RetryAfter.Seconds())
	}
	return shown
}

// maxLibraryMessage bounds what the GraphQL library says: it repeats names and values of the request.
const maxLibraryMessage = 300

// libraryMessage keeps the library from repeating long parts of the request, and from suggesting names where
// the schema is not told.
func (r *resolver) libraryMessage(message string) string {
	if !r.Introspection {
		message, _, _ = strings.Cut(message, " Did you mean")
	}
	if len(message) > maxLibraryMessage {
		message = strings.ToValidUTF8(message[:maxLibraryMessage], "") + " …"
	}
	return message
}

func (r *resolver) logBroken(ctx context.Context, e *errs.Error, shown *gqlerror.Error) {
	if e.Kind != errs.Internal {
		return
	}
	attributes := []any{"path", shown.Path.String(), "error", e.Error()}
	if o := observedIn(ctx); o != nil && o.requestID != "" {
		attributes = append(attributes, "request_id", o.requestID)
	}
	if _, ok := errors.AsType[panicked](e.Cause); ok {
		attributes = append(attributes, "stack", string(debug.Stack()))
	}
	r.Log.ErrorContext(ctx, "operation failed", attributes...)
}

// requestError recognises what the GraphQL library itself says about a request.
func requestError(err error) (errs.Kind, bool) {
	e, ok := errors.AsType[*gqlerror.Error](err)
	if !ok || e.Err != nil && errors.As(e.Err, new(*errs.Error)) {
		return 0, false
	}
	switch e.Extensions["code"] {
	case errcode.ParseFailed, errcode.ValidationFailed, errs.BadRequest.Code():
		return errs.BadRequest, true
	case errs.TooComplex.Code():
		return errs.TooComplex, true
	}
	return 0, false
}
