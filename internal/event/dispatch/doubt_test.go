package dispatch_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestDispatcher_SendsDespiteAClockThatWasAhead has a node with a clock that is ahead, or that dies,
// do a part of the work; then others send the delivery at once, and the log says why.
func TestDispatcher_SendsDespiteAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	find := func(t *testing.T, b *bundle, id string) { must.NoError(t, b.dispatcher.FindEvents(t.Context())) }
	read := func(t *testing.T, b *bundle, id string) { must.NoError(t, b.dispatcher.ReadEvents(t.Context(), id)) }
	claim := func(t *testing.T, b *bundle, id string) { must.Value(b.dispatcher.Claim(t.Context(), id))(t) }
	fail := func(t *testing.T, b *bundle, id string) {
		must.NoError(t, b.dispatcher.SendNext(t.Context(), id, "127.0.0.1"))
	}
	claimLog := func(t *testing.T, b *bundle, _ string) { must.Value(b.dispatcher.ClaimEvents(t.Context()))(t) }
	restart := func(t *testing.T, b *bundle, _ string) { must.NoError(t, b.Webhooks.EndClaims(t.Context())) }
	for name, c := range map[string]struct {
		ahead       time.Duration
		does        []func(*testing.T, *bundle, string)
		sent, isOdd bool
	}{
		"claims the log":                {day, steps{claimLog}, true, true},
		"marks the webhook":             {day, steps{find}, true, true},
		"creates the delivery":          {day, steps{read}, true, true},
		"claims the delivery":           {day, steps{find, claim}, true, true},
		"fails to send it":              {day, steps{read, fail}, true, true},
		"claims it, ten minutes ahead":  {10 * time.Minute, steps{find, claim}, true, true},
		"fails to send it, three days":  {3 * day, steps{read, fail}, true, true},
		"claims the log at noon":        {0, steps{claimLog}, false, false},
		"claims the delivery at noon":   {0, steps{find, claim}, false, false},
		"claims the log and restarts":   {0, steps{claimLog, restart}, true, false},
		"claims delivery and restarts":  {0, steps{find, claim, restart}, true, false},
		"fails to send it at noon once": {0, steps{read, fail}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
				w, _ := b.create(t, r.URL, audit.LinkUpdated)
				b.write(t, audit.LinkUpdated, newLinkID())
				until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
				r.respond(status(500))
				b.clock.advance(c.ahead)
				for _, do := range c.does {
					do(t, b, w.ID)
				}
				b.clock.advance(-c.ahead)
				r.respond(nil)
				var log strings.Builder
				b.dispatcher = b.newDispatcher(slog.New(slog.NewTextHandler(&log, nil)))
				must.NoError(t, b.dispatcher.Doubt(t.Context()))
				must.NoError(t, b.dispatcher.FindEvents(t.Context()))
				for _, id := range must.Value(b.dispatcher.Due(t.Context()))(t) {
					must.NoError(t, b.dispatcher.SendNext(t.Context(), id, w.Host))
				}
				if sent := len(b.delivered(t, w)) == 1; sent != c.sent {
					t.Errorf("delivered %t, want %t", sent, c.sent)
				}
				if odd := strings.Contains(log.String(), "clock"); odd != c.isOdd {
					t.Errorf("logged %q", &log)
				}
			})
		})
	}
}

type steps = []func(*testing.T, *bundle, string)
