package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/errs"
)

// Meter is a Limiter for what happens all the time: it takes attempts ahead from Redis, a hundredth of the rate at once, and
// hands them out from memory. However many nodes there are, nobody gets more than the rate; near its end, who asks several
// nodes may hear a little early that there is none left, by as much as the others have in hand.
type Meter struct {
	Limiter
	// Now is the clock.
	Now func() time.Time

	purses *otter.Cache[purseOf, *purse]
}

type purseOf struct{ rate, subject string }

// purse is what has been taken ahead of a subject's rate.
type purse struct {
	mu     sync.Mutex // held while Redis is asked: whoever else asks for the subject uses what comes
	inHand int64
	// left is what Redis had left when it was asked, until the window ends.
	left  int64
	until time.Time
	// blind says that Redis did not answer: until then nobody waits for it.
	blind bool
}

const (
	// aheadPart is how much of a rate is taken at once: one part in so many.
	aheadPart = 100
	// blindFor is how long Redis is not asked after it did not answer.
	blindFor = time.Second
	// mostPurses bounds the memory: those who ask often stay when many others come. One that is not used goes in time.
	mostPurses  = 100_000
	pursesStale = 5 * time.Minute
)

// NewMeter prepares a Meter.
func NewMeter(l Limiter, now func() time.Time) *Meter {
	return &Meter{Limiter: l, Now: now, purses: otter.Must(&otter.Options[purseOf, *purse]{
		MaximumSize: mostPurses, ExpiryCalculator: otter.ExpiryAccessing[purseOf, *purse](pursesStale),
	})}
}

// Spend counts attempts of a subject, and says what is left. It returns RateLimited. Like the Limiter's it fails open.
func (m *Meter) Spend(ctx context.Context, r Rate, subject string, attempts int64) (Allowance, error) {
	if m.Off {
		return Allowance{}, nil
	}
	now := m.Now()
	p := m.purse(purseOf{r.Name, subject})
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.until) && p.blind {
		return Allowance{}, nil
	}
	if !now.Before(p.until) {
		p.inHand = 0
	}
	if p.inHand < attempts {
		if known := m.fill(ctx, p, r, subject, attempts); !known {
			return Allowance{}, nil
		}
	}
	a := Allowance{Known: true, Rate: r, Left: p.left + max(0, p.inHand-attempts), Reset: max(p.until.Sub(now), time.Second).Round(time.Second)}
	if p.inHand < attempts {
		p.inHand, a.Left = 0, 0 // it would have been more than there is: that is used up
		return a, errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", a.Reset).After(a.Reset)
	}
	p.inHand -= attempts
	return a, nil
}

// purse is a subject's, made when it is missing. It mostly is there: looking is cheaper than setting.
func (m *Meter) purse(of purseOf) *purse {
	if p, ok := m.purses.GetIfPresent(of); ok {
		return p
	}
	p, _ := m.purses.SetIfAbsent(of, &purse{})
	return p
}

// fill takes attempts ahead. It reports false when Redis does not answer.
func (m *Meter) fill(ctx context.Context, p *purse, r Rate, subject string, attempts int64) bool {
	want := max(attempts-p.inHand, r.Attempts/aheadPart)
	count, left, err := m.add(ctx, r, subject, want)
	if p.blind = err != nil; p.blind {
		p.until = m.Now().Add(blindFor)
		m.Log.WarnContext(ctx, "rate limit not checked", "rate", r.Name, "error", err)
		return false
	}
	p.inHand += min(want, max(0, r.Attempts-(count-want)))
	p.left, p.until = max(0, r.Attempts-count), m.Now().Add(left)
	return true
}
