// Package limit bounds GraphQL operations before they are executed: the shape of a document, the
// types of its arguments, the number of values in a request and the cost of an operation. Its types
// are extensions of gqlgen's executor, which graph/transport installs. It does not know who sends
// an operation, or how often.
package limit

import (
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Refusal returns an error with the code of the kind.
func Refusal(kind errs.Kind, message string) *gqlerror.Error {
	return &gqlerror.Error{Message: message, Extensions: map[string]any{"code": kind.Code()}}
}

// CheckValues returns TooLarge for JSON with more than maxValues values: a value takes far more
// memory than it has bytes.
func CheckValues(body []byte, maxValues int) error {
	values := 1
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case ',', '[', '{':
			values++
		case '"':
			i += 1 + stringEnd(body[i+1:])
		}
	}
	if values > maxValues {
		return errs.New(errs.TooLarge,
			"The request contains too many values. The maximum is %d. Split it into several requests.", maxValues)
	}
	return nil
}

// stringEnd returns the index of the quote that ends a JSON string.
func stringEnd(body []byte) int {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(body)
}
