package bench

import (
	"io"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

// BenchmarkLogin tells whether a stranger can tell an account from none by the time that a refusal takes: a wrong password
// and an unknown address take turns. The distance is that of the two distributions (Kolmogorov and Smirnov): 0 says that
// they are the same, 1 that they have nothing in common. What two samples of the same distribution come to by chance is
// noise: the distance that one pair in twenty exceeds.
func BenchmarkLogin(b *testing.B) {
	each(b, func(b *testing.B, w *bundle) {
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		accounts := &account.Store{
			DB: w.db, Passwords: account.NewPasswords(), SessionTTL: time.Hour, Log: log, Now: time.Now,
			Tokens: account.Tokens{Secret: make([]byte, 32), Issuer: "http://sho.rt", TTL: time.Hour},
			Limits: ratelimit.Limiter{KV: dbtest.Redis(b, ""), Log: log, Off: true},
		}
		if _, err := accounts.Register(b.Context(), "known@example.com", "a password of some length", "Known", account.Origin{}); err != nil {
			b.Fatal(err)
		}
		var known, unknown, resetKnown, resetUnknown []float64
		refuse := func(email string) func() {
			return func() {
				if _, err := accounts.Login(b.Context(), email, "another password", account.Origin{}); !errs.Is(err, errs.BadCredentials) {
					b.Fatal(err)
				}
			}
		}
		reset := func(email string) func() {
			return func() {
				if err := accounts.RequestPasswordReset(b.Context(), email, account.Origin{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		for b.Loop() {
			measure(&known, 1, refuse("known@example.com"))
			measure(&unknown, 1, refuse("nobody@example.com"))
			measure(&resetKnown, 1, reset("known@example.com"))
			measure(&resetUnknown, 1, reset("nobody@example.com"))
		}
		b.ReportMetric(median(known), "known-µs")
		b.ReportMetric(median(unknown)/median(known), "login-ratio")
		b.ReportMetric(distance(known, unknown), "login-distance")
		b.ReportMetric(median(resetUnknown)/median(resetKnown), "reset-ratio")
		b.ReportMetric(distance(resetKnown, resetUnknown), "reset-distance")
		b.ReportMetric(1.36*math.Sqrt(2/float64(len(known))), "noise-distance")
	})
}

// distance is the largest difference between the shares of two samples that lie below any one value.
func distance(a, b []float64) (most float64) {
	below := func(sample []float64, x float64) float64 {
		n, _ := slices.BinarySearch(sample, x)
		return float64(n) / float64(len(sample))
	}
	slices.Sort(a)
	slices.Sort(b)
	for _, x := range slices.Concat(a, b) {
		most = max(most, math.Abs(below(a, x)-below(b, x)))
	}
	return most
}
