package webhook

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// TestReadings_PauseAfterFailures fails readings: the pauses grow up to a minute, and end with a success.
func TestReadings_PauseAfterFailures(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newReadings(slog.New(slog.DiscardHandler), func() time.Time { return now },
		func(context.Context, string) (progress, error) { return caughtUp, nil })
	w := &target{ID: "w", Account: "a"}
	r.add(w)
	var pauses []time.Duration
	for range 8 {
		r.finish(t.Context(), w.ID, r.take()[w.ID], caughtUp, errors.New("failed"))
		r.add(w) // a new event does not end the pause
		pauses = append(pauses, r.behind[w.ID].pausedUntil.Sub(now))
		now = r.behind[w.ID].pausedUntil.Add(-1)
		if taken := r.take(); len(taken) != 0 {
			t.Fatalf("taken during the pause: %v", taken)
		}
		now = now.Add(1)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	r.finish(t.Context(), w.ID, r.take()[w.ID], hasMore, nil)
	if b := r.take()[w.ID]; b.failures != 0 {
		t.Errorf("%d failures after a success", b.failures)
	}
}

// TestReadings_ReadOnceAtATimePerAccount takes the webhooks of six accounts.
func TestReadings_ReadOnceAtATimePerAccount(t *testing.T) {
	t.Parallel()
	r := newReadings(slog.New(slog.DiscardHandler), time.Now, nil)
	for _, account := range []string{"a", "b"} {
		r.add(&target{ID: account + "1", Account: account}, &target{ID: account + "2", Account: account})
	}
	taken := r.take()
	if len(taken) != 2 || len(r.take()) != 0 {
		t.Errorf("taken %v of two accounts", taken)
	}
	for _, account := range []string{"c", "d", "e", "f"} {
		r.add(&target{ID: account, Account: account})
	}
	if more := r.take(); len(more) != maxReading-2 {
		t.Errorf("taken %v besides two others", more)
	}
	for webhookID, b := range taken {
		r.finish(t.Context(), webhookID, b, caughtUp, nil)
	}
	rest := r.take() // those of "a" and "b" had their turn
	for webhookID, b := range rest {
		if len(rest) != 2 || webhookID != b.account {
			t.Errorf("taken %v after two ended", rest)
		}
	}
}
