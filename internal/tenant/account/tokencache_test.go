package account

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestKnownTokens_CacheVerifiedTokens is whom it stands for, until it ends: another one is looked
// at, however much like it.
func TestKnownTokens_CacheVerifiedTokens(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	actor := Actor{AccountID: id.New(id.Account), SessionID: id.New(id.Session)}
	token, expires, err := b.Tokens.Issue(actor, noon.Add(123*time.Millisecond))
	must.NoError(t, err)
	for at, good := range map[time.Duration]bool{0: true, time.Minute: true, b.Tokens.TTL - 1: true,
		b.Tokens.TTL:     false,
		2 * b.Tokens.TTL: false} {
		for range 2 {
			got, err := b.tokenCache.check(b.Tokens, token, noon.Add(at))
			if good && (err != nil || got != actor) || !good && !errs.Is(err, errs.Unauthenticated) {
				t.Errorf("after %s: %+v: %v", at, got, err)
			}
		}
	}
	if n := b.tokenCache.tokens.EstimatedSize(); n != 1 || !expires.Equal(noon.Add(b.Tokens.TTL)) {
		t.Errorf("%d tokens are known, of one that ends %s", n, expires)
	}
	for i := range token {
		other := []byte(token)
		if other[i] ^= 1; i == len(token)-1 {
			other[i] = '!' // the last character's lowest bits may say nothing
		}
		if got, err := b.tokenCache.check(b.Tokens, string(other), noon); !errs.Is(err, errs.Unauthenticated) ||
			got != (Actor{}) {
			t.Fatalf("changed at %d: %+v: %v", i, got, err)
		}
	}
	if n := b.tokenCache.tokens.EstimatedSize(); n != 1 {
		t.Errorf("%d tokens are known, of which one is good", n)
	}
}
