package webhook

import (
	"testing"
	"time"
)

// TestOutcome_IsSlow: receivers that answer late use as many connections as those that never answer.
func TestOutcome_IsSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *AttemptError
		took time.Duration
		slow bool
	}{
		{nil, time.Second, false}, {nil, slowAnswer, true}, {new(TimeoutError), time.Millisecond, true},
		{new(RefusedError), time.Second, false}, {new(RefusedError), slowAnswer, true},
	} {
		o := outcome{Attempt: Attempt{Error: c.err, DurationMs: int(c.took.Milliseconds())}}
		if o.isSlow() != c.slow {
			t.Errorf("%+v: slow %t", c, o.isSlow())
		}
	}
}
