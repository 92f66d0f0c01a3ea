package admission_test

import (
	"slices"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/admission"
)

// TestShares_BoundsEachSubject takes units of two subjects within a common bound, and returns them.
func TestShares_BoundsEachSubject(t *testing.T) {
	t.Parallel()
	all := admission.Bound{Kind: "all", Max: 5}
	one, two := admission.Bound{Kind: "one", Subject: "x", Max: 3}, admission.Bound{Kind: "two", Subject: "x", Max: 3}
	var s admission.Shares
	for i, c := range []struct {
		bound   admission.Bound
		n, want int64
	}{{one, 8, 3}, {one, 1, 0}, {two, 3, 2}, {two, 1, 0}, {one, -1, 0}} {
		if got := s.Take(c.n, all, c.bound); got != c.want {
			t.Errorf("call %d: took %d, want %d", i, got, c.want)
		}
	}
	if got := s.Full("one"); !slices.Equal(got, []string{"x"}) || len(s.Full("two")) > 0 {
		t.Errorf("full: %v, %v", got, s.Full("two"))
	}
	s.Give(3, all, one)
	if s.Used(all) != 2 || s.Used(one) != 0 || s.Take(3, all, two) != 1 {
		t.Errorf("after the return: %d in all, %d of one", s.Used(all), s.Used(one))
	}
}
