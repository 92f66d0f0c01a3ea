// Package errs holds the kinds of error that Linkforge answers with, and the one table that says
// how each kind looks over HTTP and in GraphQL.
package errs

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind says what sort of thing went wrong. The zero value is Internal: an error that nobody
// classified.
type Kind int

// The kinds of error. Those that a caller can mend by sending other input are answered inside a
// mutation's payload; the others are errors of the request itself.
const (
	Internal            Kind = iota // something broke on our side
	InvalidInput                    // an argument has the wrong form or range
	InvalidURL                      // a URL is not one that can be shortened
	UnsafeURL                       // a destination is refused
	NotFound                        // no such thing, or none that the caller may see
	CodeTaken                       // the code belongs to another URL
	CodeReserved                    // the code is a word the server keeps for itself
	CodeExhausted                   // every candidate code is taken
	SlugTaken                       // another workspace has, or had, the slug
	EmailTaken                      // another account has the address
	BadCredentials                  // wrong e-mail address or password
	QuotaExceeded                   // a monthly allowance is used up
	Immutable                       // what is to be changed cannot change
	Conflict                        // something else changed, or failed, in the meantime
	IdempotencyConflict             // the idempotency key was used for something else
	Expired                         // what is asked for has run out
	LastOwner                       // a workspace would be left without an owner
	AlreadyMember                   // the person is a member already
	DomainTaken                     // another workspace has proved the domain
	Unauthenticated                 // nobody is logged in, or the token is no longer good
	Forbidden                       // the caller's role does not allow it
	BadRequest                      // the request is not one that can be executed
	TooLarge                        // the request is larger than allowed
	TooComplex                      // the operation would cost more than allowed
	DocumentUnknown                 // the server has no document of that hash or id
	NoPersistedQueries              // documents cannot be named by their hash here
	DocumentNotAllowed              // the server executes documents of its list only
	RateLimited                     // too many attempts in a short time, or too much at once
	TooSlow                         // the caller does not take what it has asked for
	Unavailable                     // a dependency is away; trying again later helps
)

// answer is how a kind of error looks from outside.
type answer struct {
	code    string
	status  int
	mend    bool
	generic string // said when the error itself has nothing fit for the caller
}

var answers = map[Kind]answer{
	Internal: {code: "INTERNAL", status: http.StatusInternalServerError,
		generic: "Something went wrong on our side."},
	InvalidInput:        {code: "INVALID_INPUT", status: http.StatusBadRequest, mend: true},
	InvalidURL:          {code: "INVALID_URL", status: http.StatusBadRequest, mend: true},
	UnsafeURL:           {code: "UNSAFE_URL", status: http.StatusBadRequest, mend: true},
	NotFound:            {code: "NOT_FOUND", status: http.StatusNotFound, mend: true},
	CodeTaken:           {code: "CODE_TAKEN", status: http.StatusConflict, mend: true},
	CodeReserved:        {code: "CODE_RESERVED", status: http.StatusConflict, mend: true},
	CodeExhausted:       {code: "CODE_EXHAUSTED", status: http.StatusConflict, mend: true},
	SlugTaken:           {code: "SLUG_TAKEN", status: http.StatusConflict, mend: true},
	EmailTaken:          {code: "EMAIL_TAKEN", status: http.StatusConflict, mend: true},
	BadCredentials:      {code: "BAD_CREDENTIALS", status: http.StatusUnauthorized, mend: true},
	QuotaExceeded:       {code: "QUOTA_EXCEEDED", status: http.StatusTooManyRequests, mend: true},
	Immutable:           {code: "IMMUTABLE", status: http.StatusConflict, mend: true},
	Conflict:            {code: "CONFLICT", status: http.StatusConflict, mend: true},
	IdempotencyConflict: {code: "IDEMPOTENCY_CONFLICT", status: http.StatusConflict, mend: true},
	Expired:             {code: "EXPIRED", status: http.StatusGone, mend: true},
	LastOwner:           {code: "LAST_OWNER", status: http.StatusConflict, mend: true},
	AlreadyMember:       {code: "ALREADY_MEMBER", status: http.StatusConflict, mend: true},
	DomainTaken:         {code: "DOMAIN_TAKEN", status: http.StatusConflict, mend: true},
	Unauthenticated:     {code: "UNAUTHENTICATED", status: http.StatusUnauthorized},
	Forbidden:           {code: "FORBIDDEN", status: http.StatusForbidden},
	BadRequest:          {code: "BAD_REQUEST", status: http.StatusBadRequest},
	TooLarge:            {code: "REQUEST_TOO_LARGE", status: http.StatusRequestEntityTooLarge},
	TooComplex:          {code: "COMPLEXITY_LIMIT_EXCEEDED", status: http.StatusBadRequest},
	// The first two codes are those that clients of automatic persisted queries know.
	DocumentUnknown:    {code: "PERSISTED_QUERY_NOT_FOUND", status: http.StatusBadRequest},
	NoPersistedQueries: {code: "PERSISTED_QUERY_NOT_SUPPORTED", status: http.StatusBadRequest},
	DocumentNotAllowed: {code: "DOCUMENT_NOT_ALLOWED", status: http.StatusForbidden},
	RateLimited:        {code: "RATE_LIMITED", status: http.StatusTooManyRequests},
	TooSlow:            {code: "TOO_SLOW", status: http.StatusRequestTimeout},
	Unavailable: {code: "UNAVAILABLE", status: http.StatusServiceUnavailable,
		generic: "The service is busy or a part of it is away. Please try again in a moment."},
}

// Code is the kind's name in GraphQL: extensions.code of an error, or code of a UserError.
func (k Kind) Code() string { return answers[k].code }

// Coded is the kind of that name; Internal when there is none.
func Coded(code string) Kind {
	for kind, a := range answers {
		if a.code == code {
			return kind
		}
	}
	return Internal
}

// Status is the HTTP status that fits the kind.
func (k Kind) Status() int { return answers[k].status }

// Mendable reports whether the caller can mend the error by sending other input, so that it belongs
// into a mutation's payload and not among the errors of the request.
func (k Kind) Mendable() bool { return answers[k].mend }

// String is Code: kinds read the same in logs as in answers.
func (k Kind) String() string { return k.Code() }

// Error is an error that may be shown to the caller.
type Error struct {
	Kind Kind
	// Message is a sentence fit for users that says how to mend it.
	Message string
	// Field is the path of the argument at fault below a mutation's input, outermost first.
	Field []string
	// RetryAfter says when trying again can succeed; zero when time does not help.
	RetryAfter time.Duration
	// Cause is for the log, never for the caller.
	Cause error
}

// New makes an error of the kind, with a sentence fit for users.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// At says which argument is at fault: the path below a mutation's input, outermost first.
func (e *Error) At(field ...string) *Error {
	e.Field = field
	return e
}

// Because records what lies behind the error, for the log.
func (e *Error) Because(cause error) *Error {
	e.Cause = cause
	return e
}

// After records when trying again can succeed.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error is the text for the log: the message and the cause.
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

// From finds the Error in err's chain; an error that holds none becomes one of kind Internal.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Cause: err}
}

// Is reports whether err is of the kind.
func Is(err error, kind Kind) bool { return err != nil && From(err).Kind == kind }

// Public is what the caller is told: the message, or the kind's general sentence.
func (e *Error) Public() string {
	if e.Message != "" && e.Kind != Internal {
		return e.Message
	}
	return answers[e.Kind].generic
}
