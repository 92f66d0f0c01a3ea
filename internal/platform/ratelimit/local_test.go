package ratelimit

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// withoutRedis returns a Limiter whose Redis is unavailable, and its clock.
func withoutRedis(t *testing.T) (Limiter, *time.Time) {
	kv := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // no name to look up within a synctest bubble
	must.NoError(t, kv.Close())
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	return New(kv, slog.New(slog.DiscardHandler), func() time.Time { return now }), &now
}

// TestLimiter_CountsOnTheNodeWithoutRedis charges, refunds and resets while Redis is unavailable.
func TestLimiter_CountsOnTheNodeWithoutRedis(t *testing.T) {
	t.Parallel()
	l, now := withoutRedis(t)
	rate := Rate{Name: "test", Attempts: 2, Window: time.Minute}
	charge := func(subject string) error { return l.Charge(t.Context(), rate, subject) }
	refused := func(what string, after time.Duration) {
		t.Helper()
		if err := charge("a"); !errs.Is(err, errs.RateLimited) || errs.From(err).RetryAfter != after {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, isLocal := range []bool{true, false} { // of an ended window, or in Redis
		l.Refund(t.Context(), Charged{Counter{rate, "a"}, isLocal})
	}
	l.Refund(t.Context(), must.Value(l.ChargeAll(t.Context(), Counter{rate, "a"}))(t)...)
	must.NoError(t, charge("a"))
	must.NoError(t, charge("a"))
	*now = now.Add(20 * time.Second)
	refused("the third attempt", 40*time.Second)
	must.NoError(t, charge("b"))
	l.Reset(t.Context(), rate, "a")
	must.NoError(t, charge("a"))
	must.NoError(t, charge("a"))
	refused("the third attempt after a reset", time.Minute)
	rate.MaxWait = time.Hour
	refused("a further attempt", 2*time.Minute)
	*now = now.Add(61 * time.Second)
	refused("an attempt in the extended window", 2*59*time.Second)
	*now = now.Add(8 * time.Second)
	refused("an attempt in a window longer than at first", 2*110*time.Second)
	*now = now.Add(4 * time.Minute)
	must.NoError(t, charge("a"))
}

// TestLimiter_SpendsFromTheNetworkAndItsSite, or from none of them: what the site refuses, the network
// can spend later.
func TestLimiter_SpendsFromTheNetworkAndItsSite(t *testing.T) {
	t.Parallel()
	l, now := withoutRedis(t)
	rate := Rate{Name: "test", Attempts: 5, Window: time.Hour}
	spend := func(attempts int64, network string) bool {
		return l.SpendFrom(t.Context(), rate, attempts, network, "subject") == nil
	}
	for i := range siteFactor {
		network := fmt.Sprintf("2001:db8:1:%d::/64", i)
		if web.Site(network) == "" || !spend(5, network) {
			t.Fatal(network)
		}
	}
	*now = now.Add(30 * time.Minute)
	const network = "2001:db8:1:5::/64"
	if spend(3, network) || spend(5, network) {
		t.Error("beyond the rate of the site")
	}
	*now = now.Add(30 * time.Minute) // the window of the site ends, and that of the network does not
	if !spend(5, network) || spend(1, network) {
		t.Error("the network has another rate than without the refusals of its site")
	}
}

// TestLimiter_ChargesAllOrNone also leaves each subject one attempt beyond a wide limit.
func TestLimiter_ChargesAllOrNone(t *testing.T) {
	t.Parallel()
	l, _ := withoutRedis(t)
	once, wide := Rate{Name: "once", Attempts: 1, Window: time.Minute}, Rate{Name: "wide", Attempts: 2,
		Window: time.Minute}
	must.NoError(t, l.Charge(t.Context(), once, "used up"))
	if _, err := l.ChargeAll(t.Context(), Counter{wide, "a"}, Counter{wide, "b"},
		Counter{once, "used up"}); err == nil {
		t.Error("charged although one counter refuses")
	}
	for range 2 {
		must.Value(l.ChargeAll(t.Context(), Counter{wide, "a"}, Counter{wide, "b"}))(t)
	}
	for _, c := range []struct {
		from    string
		charged Rate
		refused bool
	}{{"x", wide, false}, {"x", wide, false}, {"x", once, false}, {"x", Rate{}, true}, {"y", once, false}} {
		charged, err := l.ChargeEither(t.Context(), Counter{wide, "of all"}, Counter{once, c.from})
		if (err != nil) != c.refused || err == nil && charged[0].Rate != c.charged {
			t.Errorf("%s: charged %+v, %v", c.from, charged, err)
		}
	}
	first := must.Value(l.ChargeAll(t.Context(), Counter{once, "z"}))(t)
	for range 3 { // in addition to the first one
		if _, err := l.ChargeAll(t.Context(), Counter{once, "z"}); err == nil {
			t.Error("charged twice")
		}
	}
	l.Refund(t.Context(), first...)
	must.Value(l.ChargeAll(t.Context(), Counter{once, "z"}))(t)
}
