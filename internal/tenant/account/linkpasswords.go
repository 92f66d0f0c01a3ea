package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/memo"
)

// LinkPasswordCost is bcrypt's work factor for passwords of links, which visitors send more often
// than users log in. A comparison takes 55 ms of a processor; with Cost, 220 ms. OWASP recommends
// 10 as a minimum. The hash is in the same row as the destination that it protects.
const LinkPasswordCost = 10

const (
	// rightFor is how long a right password is cached after its last use; maxRight bounds the
	// cache.
	rightFor = time.Minute
	maxRight = 10_000
	// restAfterWrong is how many times as long as a wrong password's comparison its first subject
	// rests after it, so that one network takes at most a tenth of a processor.
	restAfterWrong = 9
)

// LinkPasswords hashes and compares passwords of links, one or two at once, so that redirects have
// the other processors. The subjects of a call are what many calls can have in common: first the
// network of a visitor, or the account that sets a password, then the link or the workspace.
// Package admission orders calls by them. Right passwords are cached by a keyed hash, and need no
// comparison. Its methods return RateLimited or Unavailable.
type LinkPasswords struct {
	cost  int
	turns *admission.Queue
	key   []byte
	right memo.Cache[[sha256.Size]byte, struct{}]
}

// NewLinkPasswords returns Links with a work factor of bcrypt.
func NewLinkPasswords(cost int) *LinkPasswords {
	p := &LinkPasswords{
		cost: cost,
		turns: admission.New(admission.Config{
			Name: "passwords of links", Capacity: min(2, halfOfProcessors()), Share: 1, Waiting: maxWaiting,
			AllWaiting: maxAllWaiting, MaxWait: maxWait,
		}),
		key: make([]byte, sha256.Size),
		right: memo.New(&otter.Options[[sha256.Size]byte, struct{}]{
			MaximumSize: maxRight, ExpiryCalculator: otter.ExpiryAccessing[[sha256.Size]byte, struct{}](rightFor),
		}),
	}
	_, _ = rand.Read(p.key) // never fails
	return p
}

// Hash hashes a password. It returns the present hash, if there is one and it is that of the
// password.
func (p *LinkPasswords) Hash(ctx context.Context, present, password string, subjects ...string) (string, error) {
	turn, err := p.turns.Enter(ctx, 1, subjects...)
	if err != nil {
		return "", err
	}
	defer turn.Leave()
	if present != "" {
		if isSame, err := compare(present, password); isSame || err != nil {
			return present, err
		}
	}
	return bcryptOf(password, p.cost)
}

// Matches compares a password with a hash. The caller limits wrong passwords before: a cached right
// one takes no time.
func (p *LinkPasswords) Matches(ctx context.Context, hash, password string, subjects ...string) (bool, error) {
	known := p.keyed(hash, password)
	if _, ok := p.right.GetIfPresent(known); ok {
		return true, nil
	}
	turn, err := p.turns.Enter(ctx, 1, subjects...)
	if err != nil {
		return false, err
	}
	rest := time.Duration(0)
	defer func() { turn.LeaveAndRest(rest) }()
	if _, ok := p.right.GetIfPresent(known); ok { // since this call waits
		return true, nil
	}
	began := time.Now()
	matches, err := compare(hash, password)
	if matches {
		p.right.Set(known, struct{}{})
	} else {
		rest = restAfterWrong * time.Since(began)
	}
	return matches, err
}

// keyed returns the keyed hash of a password of a link, which its bcrypt hash identifies: each has
// its own salt.
func (p *LinkPasswords) keyed(hash, password string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(hash + "\x00" + password))
	return [sha256.Size]byte(mac.Sum(nil))
}
