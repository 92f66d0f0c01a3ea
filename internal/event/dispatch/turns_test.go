package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/admission"
)

// TestTurns_AreInProportionToTime simulates webhooks of one workspace and host, whose requests take
// as long as given, for a minute: all have as many deliveries as they can send.
func TestTurns_AreInProportionToTime(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		takes []time.Duration
		least []int // requests within the minute
	}{
		"one is slow":        {[]time.Duration{4900 * ms, 20 * ms, 20 * ms}, []int{8, 2000, 2000}},
		"one takes a second": {[]time.Duration{1000 * ms, 20 * ms}, []int{55, 3000}},
		"one of many":        {[]time.Duration{4900 * ms, 50 * ms, 50 * ms, 50 * ms}, []int{4, 400, 400, 400}},
		"most are slow":      {[]time.Duration{4900 * ms, 4900 * ms, 4900 * ms, 20 * ms}, []int{4, 4, 4, 1000}},
		"all are fast":       {[]time.Duration{20 * ms, 20 * ms}, []int{5000, 5000}},
		"it is alone":        {[]time.Duration{4900 * ms}, []int{24}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, got := range simulate(c.takes) {
				if got < c.least[i] {
					t.Errorf("the webhook of %s sent %d requests, want %d", c.takes[i], got, c.least[i])
				}
			}
		})
	}
}

// simulate returns how many requests each webhook has sent in a minute.
func simulate(takes []time.Duration) []int {
	type flight struct {
		of         int
		began, end time.Time
	}
	var flying []flight
	turns, sending, sent := turns{}, admission.Queue{}, make([]int, len(takes))
	hooks := make([]*target, len(takes))
	now := time.Unix(0, 0)
	for i := range hooks {
		hooks[i] = &target{ID: fmt.Sprint(i), WorkspaceID: "w", Host: "h", Account: "a", Concurrency: maxConcurrency,
			DueAt: now}
	}
	for end := now.Add(time.Minute); now.Before(end); now = now.Add(5 * time.Millisecond) {
		kept := flying[:0]
		for _, f := range flying {
			if f.end.After(now) {
				kept = append(kept, f)
				continue
			}
			turns.end(hooks[f.of].ID, f.began, now)
			sending.Give(1, hooks[f.of].bounds()...)
			sent[f.of]++
		}
		flying = kept
		rows := append([]*target{}, hooks...)
		turns.order(rows, now, func(of *target) int64 { return sending.Used(of.ofWorkspace()) })
		for _, row := range rows {
			n := sending.Take(turns.room(row, now), row.bounds()...)
			if n == 0 {
				continue
			}
			row.DueAt = now
			turns.begin(row.ID, now, int(n))
			for range n {
				var of int
				fmt.Sscan(row.ID, &of)
				flying = append(flying, flight{of, now, now.Add(takes[of])})
			}
		}
	}
	return sent
}

// TestTarget_SlowWebhooksShareAHalf has webhooks of many accounts send: first slow ones only.
func TestTarget_SlowWebhooksShareAHalf(t *testing.T) {
	t.Parallel()
	for name, capacity := range map[string]int64{"one host": maxPerHost, "many hosts": maxSending} {
		var sending admission.Queue
		for _, concurrency := range []int64{1, 2} {
			taken := int64(0)
			for i := range 100 {
				one := target{Account: fmt.Sprint(i), WorkspaceID: fmt.Sprint(i), Host: "host",
					Concurrency: concurrency}
				if name == "many hosts" {
					one.Host = fmt.Sprint(i)
				}
				taken += sending.Take(maxSending, one.bounds()...)
			}
			if taken != capacity/2 {
				t.Errorf("%s, concurrency %d: %d requests, want %d", name, concurrency, taken, capacity/2)
			}
		}
	}
}

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
