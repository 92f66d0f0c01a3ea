// Package must ends tests at errors that they do not expect.
package must

// T is what ends a test: testing.T, testing.B, testing.F or rapid.T.
type T interface {
	Helper()
	Fatal(arguments ...any)
}

// NoError ends the test if err is not nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns the value of a call, or ends the test if the call failed: must.Value(call())(t).
func Value[V any](value V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		NoError(t, err)
		return value
	}
}
