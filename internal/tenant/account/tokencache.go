package account

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/platform/memo"
)

// maxCachedTokens is how many tokens are cached.
const maxCachedTokens = 10_000

// tokenCache caches valid tokens by hash, so that signature and claims are not verified in each
// request. They do not change; the expiry is compared in each check, and revocation is checked by
// revoked.
type tokenCache struct {
	once   sync.Once
	tokens memo.Cache[[sha256.Size]byte, verified]
}

// verified is the content of a valid token.
type verified struct {
	actor   Actor
	expires time.Time
}

// check is Tokens.check with the cache.
func (c *tokenCache) check(t Tokens, token string, now time.Time) (Actor, error) {
	c.once.Do(func() {
		c.tokens = memo.New(&otter.Options[[sha256.Size]byte, verified]{MaximumSize: maxCachedTokens})
	})
	hash := sha256.Sum256([]byte(token))
	if g, ok := c.tokens.GetIfPresent(hash); ok && now.Before(g.expires) {
		return g.actor, nil
	}
	actor, expires, err := t.check(token, now)
	if err == nil {
		c.tokens.Set(hash, verified{actor, expires})
	}
	return actor, err
}
