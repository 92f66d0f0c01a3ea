package loader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestLoader_LoadsExpectedKeysTogether and every key but the empty one once.
func TestLoader_LoadsExpectedKeysTogether(t *testing.T) {
	t.Parallel()
	var loads [][]string
	l := Loader[int]{load: func(_ context.Context, keys ...string) (map[string]int, error) {
		loads = append(loads, keys)
		return map[string]int{"a": 1, "b": 2, "c": 3}, nil
	}}
	l.Expect([]string{"a", "b"})
	Expect(&l, []string{"b", "", "c", "none"}, func(key string) string { return key })
	var all sync.WaitGroup
	for key, want := range map[string]int{"a": 1, "b": 2} {
		for range 10 {
			all.Go(func() {
				if got, err := l.Get(t.Context(), key); got != want || err != nil {
					t.Errorf("%s: %d, %v", key, got, err)
				}
			})
		}
	}
	all.Wait()
	for _, key := range []string{"none", ""} {
		if got, err := l.Get(t.Context(), key); got != 0 || err != nil {
			t.Errorf("the key %q without a value: %d, %v", key, got, err)
		}
	}
	if want := [][]string{{"a", "b"}, {"c", "none"}}; !slices.EqualFunc(loads, want, slices.Equal) {
		t.Errorf("loaded %v, want %v", loads, want)
	}
}

// TestLoader_ReturnsTheErrorToAllKeys also if load panics.
func TestLoader_ReturnsTheErrorToAllKeys(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := Loader[int]{load: func(_ context.Context, keys ...string) (map[string]int, error) {
		if keys[0] == "panics" {
			panic("broken")
		}
		return nil, broken
	}}
	l.Expect([]string{"a", "b"})
	l.Expect([]string{"panics", "c"})
	for _, key := range []string{"a", "b"} {
		if _, err := l.Get(t.Context(), key); !errors.Is(err, broken) {
			t.Errorf("%s: %v", key, err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = l.Get(t.Context(), "panics")
	}()
	if _, err := l.Get(t.Context(), "c"); !errors.Is(err, errNotLoaded) {
		t.Errorf("after a panic: %v", err)
	}
}
