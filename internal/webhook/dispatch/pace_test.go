package dispatch

import (
	"testing"
	"time"
)

// TestPace_BoundsAttempts takes the attempts of seven webhooks of a workspace, in two seconds.
func TestPace_BoundsAttempts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPace(func() time.Time { return now }, false)
	hooks := make([]*target, 7)
	for i := range hooks {
		hooks[i] = &target{ID: string(rune('a' + i)), WorkspaceID: "workspace"}
	}
	for range 2 {
		for i, w := range hooks {
			got, wait := p.take(w, 8)
			p.giveBack(w, min(got, 1))
			for range 3 {
				n, next := p.take(w, 8)
				got, wait = got+n, next
			}
			want := int64(21) // one of them was given back
			if i >= 5 {
				want = 0
			}
			if got != want || wait != time.Second {
				t.Errorf("%d attempts of webhook %d, want %d, the next in %s", got, i, want, wait)
			}
		}
		now = now.Add(time.Second)
	}
	if len(p.windows) != 6 {
		t.Errorf("%d windows", len(p.windows))
	}
	p.take(hooks[0], 1)
	if len(p.windows) != 2 {
		t.Errorf("%d windows in the next second", len(p.windows))
	}
}
