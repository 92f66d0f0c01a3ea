// Package wanttest compares what tests got with what they want.
package wanttest

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
)

// T is what reports a difference: testing.T or rapid.T.
type T interface {
	Helper()
	Errorf(format string, arguments ...any)
}

// Equal reports how a value differs from the one that is wanted. The text says what it is.
func Equal(t T, want, got any, format string, arguments ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, arguments...), diff)
	}
}
