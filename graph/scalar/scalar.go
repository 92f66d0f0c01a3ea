// Package scalar binds what the schema's generated code needs and no domain package should know.
package scalar

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/internal/errs"
)

// Node is anything that has an id: the Go of the schema's interface.
type Node any

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
func UnmarshalString(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", errs.New(errs.BadRequest, "A string is written in quotes.")
	}
	return s, nil
}

// MarshalInt writes an Int.
func MarshalInt(i int) graphql.Marshaler { return graphql.MarshalInt(i) }

// UnmarshalInt reads an Int, which has 32 bits (https://spec.graphql.org/October2021/#sec-Int). It returns
// BadRequest.
func UnmarshalInt(v any) (int, error) {
	var n int64
	var err error
	switch v := v.(type) {
	case int64:
		n = v
	case int:
		n = int64(v)
	case json.Number:
		n, err = v.Int64()
	default:
		err = strconv.ErrSyntax
	}
	if err != nil || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, errs.New(errs.BadRequest, "An Int is a whole number of at most 32 bits.")
	}
	return int(n), nil
}
