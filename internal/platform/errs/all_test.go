package errs

import (
	"errors"
	"fmt"
	"testing"
)

// TestAll_CollectsWhatACallerCanFix: what was not found counts only alone, and an error of the server is
// returned by itself.
func TestAll_CollectsWhatACallerCanFix(t *testing.T) {
	t.Parallel()
	wrong := func(field string) error { return New(InvalidInput, "%s is wrong.", field).At(field) }
	missing, broken := New(NotFound, "There is none.").At("id"), errors.New("broken")
	for name, c := range map[string]struct {
		checks []error
		want   string
	}{
		"none":              {[]error{nil, nil}, "[]"},
		"one":               {[]error{nil, wrong("a")}, "[[a]]"},
		"two":               {[]error{wrong("a"), nil, wrong("b")}, "[[a] [b]]"},
		"collected already": {[]error{All(wrong("a"), wrong("b")), wrong("c")}, "[[a] [b] [c]]"},
		"not found":         {[]error{missing}, "[[id]]"},
		"not found beside":  {[]error{missing, wrong("a")}, "[[a]]"},
		"the server's own":  {[]error{wrong("a"), broken}, "broken"},
		"under an object":   {[]error{Under(All(wrong("a"), wrong("b")), "o", "0")}, "[[o 0 a] [o 0 b]]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := All(c.checks...)
			got := [][]string{}
			switch {
			case errors.Is(err, broken):
				if c.want != "broken" {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			case err != nil:
				for _, one := range From(err).Each() {
					got = append(got, one.Field)
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// TestAll_LeavesSharedErrorsAsTheyAre: an error may be returned to several callers at once.
func TestAll_LeavesSharedErrorsAsTheyAre(t *testing.T) {
	t.Parallel()
	shared := New(InvalidInput, "a")
	all := From(All(shared, New(InvalidInput, "b")))
	if len(all.Each()) != 2 || len(shared.Each()) != 1 {
		t.Errorf("%d and %d errors", len(all.Each()), len(shared.Each()))
	}
}
