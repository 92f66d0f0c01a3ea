package ratelimit

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
)

// TestFallback_CountsOnTheNode charges while Redis is unavailable.
func TestFallback_CountsOnTheNode(t *testing.T) {
	t.Parallel()
	kv := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // nothing listens there
	defer kv.Close()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	f := NewFallback(Limiter{KV: kv, Log: slog.New(slog.DiscardHandler)}, func() time.Time { return now })
	rate := Rate{Name: "test", Attempts: 2, Window: time.Minute}
	charge := func(subject string) error { return f.Charge(t.Context(), rate, subject) }
	must.NoError(t, charge("a"))
	f.Refund(t.Context(), rate, "a")
	for range 2 {
		must.NoError(t, charge("a"))
	}
	now = now.Add(20 * time.Second)
	if err := charge("a"); !errs.Is(err, errs.RateLimited) || errs.From(err).RetryAfter != 40*time.Second {
		t.Errorf("the third attempt: %v", err)
	}
	if err := charge("b"); err != nil {
		t.Errorf("another subject: %v", err)
	}
	now = now.Add(40 * time.Second)
	if err := charge("a"); err != nil {
		t.Errorf("the next window: %v", err)
	}
}
