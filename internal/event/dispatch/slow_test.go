package dispatch

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/webhook"
)

// TestOutcome_IsSlow: receivers that respond late use as many connections as receivers that never
// respond.
func TestOutcome_IsSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *webhook.AttemptError
		took time.Duration
		slow bool
	}{
		{nil, time.Second, false}, {nil, slowAnswer, true}, {new(webhook.TimeoutError), time.Millisecond, true},
		{new(webhook.RefusedError), time.Second, false}, {new(webhook.RefusedError), slowAnswer, true},
	} {
		o := outcome{Attempt: webhook.Attempt{Error: c.err, DurationMs: int(c.took.Milliseconds())}}
		if o.isSlow() != c.slow {
			t.Errorf("%+v: slow %t", c, o.isSlow())
		}
	}
}
