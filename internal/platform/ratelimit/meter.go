package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/memo"
)

// Meter is a Limiter for frequent attempts: it reserves a hundredth of the rate in Redis at a time,
// and consumes the reservation from memory. No subject gets more than the rate, on any number of
// nodes. A subject that uses several nodes may be refused early, by as much as the other nodes have
// reserved.
type Meter struct {
	Limiter
	// Now is the clock.
	Now func() time.Time

	budgets memo.Cache[budgetKey, *budget]
}

type budgetKey struct{ rate, subject string }

// budget is the reservation of a subject.
type budget struct {
	mu        sync.Mutex // held during the call of Redis, whose result concurrent requests share
	available int64
	// left is the number of attempts left after the last call; until is the end of the window.
	left  int64
	until time.Time
}

const (
	// reservationDivisor divides a rate into reservations.
	reservationDivisor = 100
	// maxBudgets bounds the memory; frequent subjects stay. A budget expires when it was unused for
	// budgetIdle.
	maxBudgets = 100_000
	budgetIdle = 5 * time.Minute
)

// NewMeter returns a Meter.
func NewMeter(l Limiter, now func() time.Time) *Meter {
	return &Meter{Limiter: l, Now: now, budgets: memo.New(&otter.Options[budgetKey, *budget]{
		MaximumSize: maxBudgets, ExpiryCalculator: otter.ExpiryAccessing[budgetKey, *budget](budgetIdle),
	})}
}

// Spend counts attempts of a subject, and returns the remaining allowance. It returns RateLimited.
func (m *Meter) Spend(ctx context.Context, r Rate, subject string, attempts int64) (Allowance, error) {
	if m.Off {
		return Allowance{}, nil
	}
	now := m.Now()
	p := m.budget(budgetKey{r.Name, subject})
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.until) {
		p.available = 0
	}
	if p.available < attempts {
		m.fill(ctx, p, r, subject, attempts)
	}
	a := Allowance{
		Known: true,
		Rate:  r,
		Left:  p.left + max(0, p.available-attempts),
		Reset: max(p.until.Sub(now), time.Second).Round(time.Second),
	}
	if p.available < attempts {
		p.available, a.Left = 0, 0 // a refused attempt uses up the rest
		return a, errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", a.Reset).After(a.Reset)
	}
	p.available -= attempts
	return a, nil
}

// budget returns the budget of a subject. It creates a missing one; reading first is cheaper.
func (m *Meter) budget(key budgetKey) *budget {
	if p, ok := m.budgets.GetIfPresent(key); ok {
		return p
	}
	p, _ := m.budgets.SetIfAbsent(key, &budget{})
	return p
}

// fill reserves attempts.
func (m *Meter) fill(ctx context.Context, p *budget, r Rate, subject string, attempts int64) {
	want := max(attempts-p.available, r.Attempts/reservationDivisor)
	count, left, _ := m.count(ctx, r, subject, want)
	p.available += min(want, max(0, r.Attempts-(count-want)))
	p.left, p.until = max(0, r.Attempts-count), m.Now().Add(left)
}
