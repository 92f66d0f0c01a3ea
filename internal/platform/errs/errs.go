// Package errs owns the kinds of errors and the table of how each is presented over HTTP and in
// GraphQL. Every package returns them; only graph and server present them.
package errs

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// Kind classifies an error. The zero value is Internal, an unclassified error.
type Kind int

// The kinds of errors.
const (
	Internal            Kind = iota // an unexpected error, which is logged
	InvalidInput                    // an argument is malformed or out of range
	InvalidURL                      // the URL cannot be shortened
	UnsafeURL                       // the destination is refused
	NotFound                        // the object does not exist, or the caller may not read it
	CodeTaken                       // the code is in use for another URL
	ExternalIDTaken                 // another link of the workspace has the external id
	CodeReserved                    // the code is reserved by the server
	CodeExhausted                   // all candidate codes are taken
	SlugTaken                       // another workspace has or had the slug, or it is reserved
	EmailTaken                      // another account has the e-mail address
	BadCredentials                  // the e-mail address, password or token is wrong
	QuotaExceeded                   // a quota is used up, or the owner has as many objects as it may have
	Immutable                       // the value cannot be changed
	Conflict                        // a concurrent change, or another item of the batch failed
	IdempotencyConflict             // the idempotency key was used with another input
	Expired                         // the object has expired
	LastOwner                       // the workspace would have no owner
	AlreadyMember                   // the user is already a member
	DomainTaken                     // another workspace has verified the domain
	Unauthenticated                 // credentials are missing or invalid
	Forbidden                       // the caller lacks the role or scope
	BadRequest                      // the request is malformed or fails validation
	TooLarge                        // the request exceeds a size limit
	TooComplex                      // the operation exceeds a complexity or cost limit
	DocumentUnknown                 // no document is stored under the hash or ID
	NoPersistedQueries              // automatic persisted queries are disabled
	DocumentNotAllowed              // only persisted documents are allowed
	RateLimited                     // a rate or concurrency limit was exceeded
	TooSlow                         // the subscriber reads too slowly
	Unavailable                     // overload, a deadline or an unavailable dependency; a retry can succeed
)

// response is how a kind is presented over HTTP and in GraphQL.
type response struct {
	code    string
	status  int
	user    bool   // see IsUserError
	generic string // the message of an error without one
}

var responses = map[Kind]response{
	Internal: {code: "INTERNAL", status: http.StatusInternalServerError,
		generic: "Internal server error. Try again in a moment."},
	InvalidInput:        {code: "INVALID_INPUT", status: http.StatusBadRequest, user: true},
	InvalidURL:          {code: "INVALID_URL", status: http.StatusBadRequest, user: true},
	UnsafeURL:           {code: "UNSAFE_URL", status: http.StatusBadRequest, user: true},
	NotFound:            {code: "NOT_FOUND", status: http.StatusNotFound, user: true},
	CodeTaken:           {code: "CODE_TAKEN", status: http.StatusConflict, user: true},
	ExternalIDTaken:     {code: "EXTERNAL_ID_TAKEN", status: http.StatusConflict, user: true},
	CodeReserved:        {code: "CODE_RESERVED", status: http.StatusConflict, user: true},
	CodeExhausted:       {code: "CODE_EXHAUSTED", status: http.StatusConflict, user: true},
	SlugTaken:           {code: "SLUG_TAKEN", status: http.StatusConflict, user: true},
	EmailTaken:          {code: "EMAIL_TAKEN", status: http.StatusConflict, user: true},
	BadCredentials:      {code: "BAD_CREDENTIALS", status: http.StatusUnauthorized, user: true},
	QuotaExceeded:       {code: "QUOTA_EXCEEDED", status: http.StatusTooManyRequests, user: true},
	Immutable:           {code: "IMMUTABLE", status: http.StatusConflict, user: true},
	Conflict:            {code: "CONFLICT", status: http.StatusConflict, user: true},
	IdempotencyConflict: {code: "IDEMPOTENCY_CONFLICT", status: http.StatusConflict, user: true},
	Expired:             {code: "EXPIRED", status: http.StatusGone, user: true},
	LastOwner:           {code: "LAST_OWNER", status: http.StatusConflict, user: true},
	AlreadyMember:       {code: "ALREADY_MEMBER", status: http.StatusConflict, user: true},
	DomainTaken:         {code: "DOMAIN_TAKEN", status: http.StatusConflict, user: true},
	Unauthenticated:     {code: "UNAUTHENTICATED", status: http.StatusUnauthorized},
	Forbidden:           {code: "FORBIDDEN", status: http.StatusForbidden},
	BadRequest:          {code: "BAD_REQUEST", status: http.StatusBadRequest},
	TooLarge:            {code: "REQUEST_TOO_LARGE", status: http.StatusRequestEntityTooLarge},
	TooComplex:          {code: "COMPLEXITY_LIMIT_EXCEEDED", status: http.StatusBadRequest},
	// The first two codes are defined by the Automatic Persisted Queries protocol.
	DocumentUnknown:    {code: "PERSISTED_QUERY_NOT_FOUND", status: http.StatusBadRequest},
	NoPersistedQueries: {code: "PERSISTED_QUERY_NOT_SUPPORTED", status: http.StatusBadRequest},
	DocumentNotAllowed: {code: "DOCUMENT_NOT_ALLOWED", status: http.StatusForbidden},
	RateLimited:        {code: "RATE_LIMITED", status: http.StatusTooManyRequests},
	TooSlow:            {code: "TOO_SLOW", status: http.StatusRequestTimeout},
	Unavailable: {code: "UNAVAILABLE", status: http.StatusServiceUnavailable,
		generic: "The service is overloaded or temporarily unavailable. Try again in a moment."},
}

// Code returns the code in GraphQL: extensions.code of an error, or code of a UserError.
func (k Kind) Code() string { return responses[k].code }

// Coded returns the kind with the code, or Internal if no kind has it.
func Coded(code string) Kind {
	for kind, a := range responses {
		if a.code == code {
			return kind
		}
	}
	return Internal
}

// Status returns the HTTP status of the kind.
func (k Kind) Status() int { return responses[k].status }

// IsUserError reports whether the caller can fix the error by changing the input. User errors are
// returned in the mutation payload; all others are top-level errors.
func (k Kind) IsUserError() bool { return responses[k].user }

// String returns Code.
func (k Kind) String() string { return k.Code() }

// Error is an error that may be shown to the caller.
type Error struct {
	Kind Kind
	// Message is a sentence for users that says how to fix the error.
	Message string
	// Field is the path of the invalid argument below a mutation's input.
	Field []string
	// RetryAfter is when a retry can succeed, if the kind does not imply it: see Retry.
	RetryAfter time.Duration
	// Cause is logged and never shown.
	Cause error
	// Others are the further errors of the same input, see All.
	Others []*Error
}

// New returns an error of the kind with a sentence for users.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// At sets the path of the invalid argument below a mutation's input.
func (e *Error) At(field ...string) *Error {
	e.Field = field
	return e
}

// Under sets the path of the object that has the invalid argument.
func (e *Error) Under(object ...string) *Error {
	for _, one := range e.Each() {
		one.Field = slices.Concat(object, one.Field)
	}
	return e
}

// Because sets the cause, for the log.
func (e *Error) Because(cause error) *Error {
	e.Cause = cause
	return e
}

// After sets when a retry can succeed.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error returns the text for the log: the message and the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	if e.Message == "" {
		return e.Cause.Error()
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// From returns the Error in err's chain. Other errors are Unavailable if IsOutage, and else
// Internal.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if IsOutage(err) {
		return &Error{Kind: Unavailable, Cause: err}
	}
	return &Error{Kind: Internal, Cause: err}
}

// PanicError is the value of a recovered panic, and the stack for the log.
type PanicError struct {
	Value any
	Stack []byte
}

// Panic returns the error of a recovered panic. The function that recovers calls it.
func Panic(value any) *PanicError { return &PanicError{value, debug.Stack()} }

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Retry returns when a retry can succeed: RetryAfter, or a few seconds for Unavailable. It is zero
// if time does not help.
func (e *Error) Retry() time.Duration {
	if e.RetryAfter == 0 && e.Kind == Unavailable {
		return outageRetry
	}
	return e.RetryAfter
}

// Is reports whether err is of the kind.
func Is(err error, kind Kind) bool { return err != nil && From(err).Kind == kind }

// Public returns the text for the caller: the message, or the generic message of the kind. Messages
// of internal errors are not shown.
func (e *Error) Public() string {
	if e.Message != "" && e.Kind != Internal {
		return e.Message
	}
	return responses[e.Kind].generic
}
