package optional

import "testing"

func TestOf_ConvertsPointers(t *testing.T) {
	t.Parallel()
	if p := Of(""); p != nil {
		t.Errorf("the empty text is %q", *p)
	}
	if p := Of("a"); p == nil || *p != "a" || Value(p) != "a" {
		t.Errorf("a text is %v", p)
	}
	if got := Value[int64](nil); got != 0 {
		t.Errorf("nil is %d", got)
	}
}
