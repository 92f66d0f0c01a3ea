// Package errs owns the kinds of errors and the table of how each is presented over HTTP and in
// GraphQL. Every package returns them; only graph and server present them.
package errs

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind classifies an error. The zero value is Internal, an unclassified error.
type Kind int

// The kinds of errors.
const (
	Internal            Kind = iota // something broke on our side
	InvalidInput                    // an argument has the wrong form or range
	InvalidURL                      // a URL is not one that can be shortened
	UnsafeURL                       // a destination is refused
	NotFound                        // unknown, or invisible to the caller
	CodeTaken                       // the code belongs to another URL
	CodeReserved                    // the code is a word the server keeps for itself
	CodeExhausted                   // every candidate code is taken
	SlugTaken                       // another workspace has, or had, the slug
	EmailTaken                      // another account has the address
	BadCredentials                  // wrong e-mail address or password
	QuotaExceeded                   // a monthly allowance is used up
	Immutable                       // the value cannot change
	Conflict                        // a concurrent change, or a failed item of a batch
	IdempotencyConflict             // the idempotency key was used for something else
	Expired                         // the object has expired
	LastOwner                       // a workspace would be left without an owner
	AlreadyMember                   // the person is a member already
	DomainTaken                     // another workspace has proved the domain
	Unauthenticated                 // no credentials, or invalid ones
	Forbidden                       // the caller's role does not allow it
	BadRequest                      // the request is not one that can be executed
	TooLarge                        // the request is larger than allowed
	TooComplex                      // the operation would cost more than allowed
	DocumentUnknown                 // the server has no document of that hash or id
	NoPersistedQueries              // documents cannot be named by their hash here
	DocumentNotAllowed              // the server executes documents of its list only
	RateLimited                     // too many attempts in a short time, or too much at once
	TooSlow                         // the client reads too slowly
	Unavailable                     // a dependency is unavailable; a retry can succeed
)

// response is the presentation of a kind.
type response struct {
	code    string
	status  int
	user    bool   // see IsUserError
	generic string // the message if the error has none
}

var responses = map[Kind]response{
	Internal: {code: "INTERNAL", status: http.StatusInternalServerError,
		generic: "Something went wrong on our side."},
	InvalidInput:        {code: "INVALID_INPUT", status: http.StatusBadRequest, user: true},
	InvalidURL:          {code: "INVALID_URL", status: http.StatusBadRequest, user: true},
	UnsafeURL:           {code: "UNSAFE_URL", status: http.StatusBadRequest, user: true},
	NotFound:            {code: "NOT_FOUND", status: http.StatusNotFound, user: true},
	CodeTaken:           {code: "CODE_TAKEN", status: http.StatusConflict, user: true},
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
	// Clients of automatic persisted queries know the first two codes.
	DocumentUnknown:    {code: "PERSISTED_QUERY_NOT_FOUND", status: http.StatusBadRequest},
	NoPersistedQueries: {code: "PERSISTED_QUERY_NOT_SUPPORTED", status: http.StatusBadRequest},
	DocumentNotAllowed: {code: "DOCUMENT_NOT_ALLOWED", status: http.StatusForbidden},
	RateLimited:        {code: "RATE_LIMITED", status: http.StatusTooManyRequests},
	TooSlow:            {code: "TOO_SLOW", status: http.StatusRequestTimeout},
	Unavailable: {code: "UNAVAILABLE", status: http.StatusServiceUnavailable,
		generic: "The service is busy or a part of it is away. Please try again in a moment."},
}

// Code returns the code in GraphQL: extensions.code of an error, or code of a UserError.
func (k Kind) Code() string { return responses[k].code }

// Coded returns the kind with the code; Internal if there is none.
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

// IsUserError reports whether other input can fix the error, so that it is part of a mutation's
// payload and not of the request's errors.
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

// From returns the Error in err's chain. Other errors are Unavailable if IsOutage, and else Internal.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if IsOutage(err) {
		return &Error{Kind: Unavailable, Cause: err}
	}
	return &Error{Kind: Internal, Cause: err}
}

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

// Public returns the text for the caller: the message, or the kind's general sentence.
func (e *Error) Public() string {
	if e.Message != "" && e.Kind != Internal {
		return e.Message
	}
	return responses[e.Kind].generic
}
