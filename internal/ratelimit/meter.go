package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/errs"
)

// Meter is a Limiter for what happens all the time: it takes attempts ahead from Redis, a hundredth
// of the rate at once, and hands them out from memory. However many nodes there are, nobody gets
// more than the rate; near its end, who asks several nodes may hear a little early that there is
// none left, by as much as the others have in hand.
type Meter struct {
	Limiter
	// Now is the clock.
	Now func() time.Time

	budgets *otter.Cache[budgetKey, *budget]
}

type budgetKey struct{ rate, subject string }

// budget is what has been taken ahead of a subject's rate.
type budget struct {
	mu        sync.Mutex // held while Redis is asked: whoever else asks for the subject uses what comes
	available int64
	// left is what Redis had left when it was asked, until the window ends.
	left  int64
	until time.Time
	// unknown says that Redis did not answer: until then nobody waits for it.
	unknown bool
}

const (
	// batchPart is how much of a rate is taken at once: one part in so many.
	batchPart = 100
	// retryAfterFailure is how long Redis is not asked after it did not answer.
	retryAfterFailure = time.Second
	// maxBudgets bounds the memory: those who ask often stay when many others come. One that is not
	// used goes in time.
	maxBudgets = 100_000
	budgetIdle = 5 * time.Minute
)

// NewMeter prepares a Meter.
func NewMeter(l Limiter, now func() time.Time) *Meter {
	return &Meter{Limiter: l, Now: now, budgets: otter.Must(&otter.Options[budgetKey, *budget]{
		MaximumSize: maxBudgets, ExpiryCalculator: otter.ExpiryAccessing[budgetKey, *budget](budgetIdle),
	})}
}

// Spend counts attempts of a subject, and says what is left. It returns RateLimited. Like the
// Limiter's it fails open.
func (m *Meter) Spend(ctx context.Context, r Rate, subject string, attempts int64) (Allowance, error) {
	if m.Off {
		return Allowance{}, nil
	}
	now := m.Now()
	p := m.budget(budgetKey{r.Name, subject})
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.until) && p.unknown {
		return Allowance{}, nil
	}
	if !now.Before(p.until) {
		p.available = 0
	}
	if p.available < attempts {
		if known := m.fill(ctx, p, r, subject, attempts); !known {
			return Allowance{}, nil
		}
	}
	a := Allowance{
		Known: true,
		Rate:  r,
		Left:  p.left + max(0, p.available-attempts),
		Reset: max(p.until.Sub(now), time.Second).Round(time.Second),
	}
	if p.available < attempts {
		p.available, a.Left = 0, 0 // it would have been more than there is: that is used up
		return a, errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", a.Reset).After(a.Reset)
	}
	p.available -= attempts
	return a, nil
}

// budget is a subject's, made when it is missing. It mostly is there: looking is cheaper than
// setting.
func (m *Meter) budget(of budgetKey) *budget {
	if p, ok := m.budgets.GetIfPresent(of); ok {
		return p
	}
	p, _ := m.budgets.SetIfAbsent(of, &budget{})
	return p
}

// fill takes attempts ahead. It reports false when Redis does not answer.
func (m *Meter) fill(ctx context.Context, p *budget, r Rate, subject string, attempts int64) bool {
	want := max(attempts-p.available, r.Attempts/batchPart)
	count, left, err := m.add(ctx, r, subject, want)
	if p.unknown = err != nil; p.unknown {
		p.until = m.Now().Add(retryAfterFailure)
		m.Log.WarnContext(ctx, "rate limit not checked", "rate", r.Name, "error", err)
		return false
	}
	p.available += min(want, max(0, r.Attempts-(count-want)))
	p.left, p.until = max(0, r.Attempts-count), m.Now().Add(left)
	return true
}
