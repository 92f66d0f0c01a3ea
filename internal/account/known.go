package account

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

// mostKnown is how many tokens are remembered as good: of more people at once, those who ask often.
const mostKnown = 10_000

// known are tokens whose signature and claims have been found good, by their hashes, so that a person's are not read again with
// each request. That never changes but by time: what is remembered is until when, and whoever asks compares. Whether the session
// still goes on is not remembered, but asked each time (revoked).
type known struct {
	once   sync.Once
	tokens *otter.Cache[[sha256.Size]byte, good]
}

// good is what a good token says.
type good struct {
	actor   Actor
	expires time.Time
}

// check is Tokens.check, of tokens that may have been checked before.
func (k *known) check(t Tokens, token string, now time.Time) (Actor, error) {
	k.once.Do(func() {
		k.tokens = otter.Must(&otter.Options[[sha256.Size]byte, good]{MaximumSize: mostKnown})
	})
	hash := sha256.Sum256([]byte(token))
	if g, ok := k.tokens.GetIfPresent(hash); ok && now.Before(g.expires) {
		return g.actor, nil
	}
	actor, expires, err := t.check(token, now) // which also tells apart what has expired from what is wrong
	if err == nil {
		k.tokens.Set(hash, good{actor, expires})
	}
	return actor, err
}
