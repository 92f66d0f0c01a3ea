package limit

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Node is anything that has an id: the Go of the schema's interface.
type Node any

// TaskReport is the result of a task: the Go of the schema's union.
type TaskReport any

// MarshalTime writes an instant as RFC 3339, in UTC.
func MarshalTime(t time.Time) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		_, _ = io.WriteString(w, strconv.Quote(t.UTC().Format(time.RFC3339Nano)))
	})
}

// UnmarshalTime reads an instant as RFC 3339 writes it, to the microsecond. It returns BadRequest.
func UnmarshalTime(v any) (time.Time, error) {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return time.Time{}, errs.New(errs.BadRequest, "A Time is written as in 2006-01-02T15:04:05Z (RFC 3339).")
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

// MarshalString writes a string.
func MarshalString(s string) graphql.Marshaler { return graphql.MarshalString(s) }

// UnmarshalString reads a string, and nothing that only looks like one. It returns BadRequest.
// Null, which Check refuses where a value is required, is empty.
func UnmarshalString(v any) (string, error) {
	s, ok := v.(string)
	if !ok && v != nil {
		return "", errs.New(errs.BadRequest, "A string is written in quotes.")
	}
	return s, nil
}

// MarshalID writes an ID.
func MarshalID(s string) graphql.Marshaler { return graphql.MarshalID(s) }

// UnmarshalID reads an ID, a string or a whole number. Null is empty, as in UnmarshalString.
func UnmarshalID(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	return graphql.UnmarshalID(v)
}

// MarshalInt writes an Int.
func MarshalInt(i int) graphql.Marshaler { return graphql.MarshalInt(i) }

// UnmarshalInt reads an Int, which has 32 bits (https://spec.graphql.org/October2021/#sec-Int). It
// returns BadRequest.
func UnmarshalInt(v any) (int, error) {
	n, ok := integer(v)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, errs.New(errs.BadRequest, "An Int is a whole number of at most 32 bits.")
	}
	return int(n), nil
}

// integer returns the value of a whole number of up to 64 bits. Text with digits is not a number.
func integer(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}

// Check reports whether v, an argument's value from JSON or from a literal of the document, is a
// value of the named scalar type. Integers have the type json.Number or int64. It returns
// BadRequest with a sentence that does not repeat v.
func Check(name string, v any) (err error) {
	_, isInteger := integer(v)
	_, isText := v.(string)
	_, isBool := v.(bool)
	switch name {
	case "Int":
		_, err = UnmarshalInt(v)
	case "Time":
		_, err = UnmarshalTime(v)
	case "Int64":
		err = require(isInteger, "An Int64 is a whole number of at most 64 bits, written without quotes.")
	case "ID":
		err = require(isText || isInteger, "An ID is a string, or a whole number of at most 64 bits.")
	case "Boolean":
		err = require(isBool, "A Boolean is true or false, written without quotes.")
	default: // String, URL and EmailAddress
		err = require(isText, "A string is written in quotes.")
	}
	return err
}

// require returns BadRequest with the message if ok is false.
func require(ok bool, message string) error {
	if ok {
		return nil
	}
	return errs.New(errs.BadRequest, "%s", message)
}
