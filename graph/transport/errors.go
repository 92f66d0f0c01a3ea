package transport

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// recoverTo turns a panic of the deferring function into its error.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = errs.Panic(value)
	}
}

// recoverWith turns a panic of the deferring function into errors for the client.
func (h *Handler) recoverWith(ended *gqlerror.List) {
	if value := recover(); value != nil {
		*ended = gqlerror.List{h.present(context.Background(), errs.Panic(value))}
	}
}

// errTimeout is the error of an operation that exceeded its deadline.
func errTimeout(cause error) *errs.Error {
	return errs.New(errs.Unavailable,
		"The operation exceeded its deadline. Try again, or request fewer items or a shorter range.").Because(cause)
}

// present returns the error for the client: a message, a path, extensions.code and, if an argument
// is at fault, extensions.field. It logs internal errors, which the client does not see.
func (h *Handler) present(ctx context.Context, err error) *gqlerror.Error {
	shown := graphql.DefaultErrorPresenter(ctx, err)
	if code, ok := requestError(err); ok {
		field := shown.Extensions["field"]
		shown.Extensions = map[string]any{"code": code.Code()}
		if field != nil {
			shown.Extensions["field"] = field
		}
		shown.Message = h.libraryMessage(shown.Message)
		return shown
	}
	e := errs.From(err)
	if e.Message == "" && ctx.Err() != nil {
		e = errTimeout(err)
	}
	h.logFailure(ctx, e, shown)
	shown.Message = e.Public()
	shown.Extensions = map[string]any{"code": e.Kind.Code()}
	if len(e.Field) > 0 {
		shown.Extensions["field"] = e.Field
	}
	if wait := e.Retry(); wait > 0 {
		shown.Extensions["retryAfter"] = int(wait.Seconds())
	}
	return shown
}

// maxLibraryMessage bounds messages of the GraphQL library, in bytes: they repeat names and values
// of the request.
const maxLibraryMessage = 300

// libraryMessage shortens a message, and removes suggestions if the schema is not public.
func (h *Handler) libraryMessage(message string) string {
	if !h.config.Introspection {
		message, _, _ = strings.Cut(message, " Did you mean")
	}
	if len(message) > maxLibraryMessage {
		message = strings.ToValidUTF8(message[:maxLibraryMessage], "") + " …"
	}
	return message
}

// logFailure logs internal errors, and outages without a description.
func (h *Handler) logFailure(ctx context.Context, e *errs.Error, shown *gqlerror.Error) {
	level := slog.LevelError
	if e.Kind == errs.Unavailable && e.Message == "" {
		level = slog.LevelWarn
	} else if e.Kind != errs.Internal {
		return
	}
	attributes := []any{"path", shown.Path.String(), "error", e}
	if o := observedIn(ctx); o != nil && o.requestID != "" {
		attributes = append(attributes, "request_id", o.requestID)
	}
	if p, ok := errors.AsType[*errs.PanicError](e.Cause); ok {
		attributes = append(attributes, "stack", string(p.Stack))
	}
	h.config.Log.Log(ctx, level, "operation failed", attributes...)
}

// requestError reports whether the GraphQL library refused the request, and the kind of its error.
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
