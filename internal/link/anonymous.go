package link

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/workspace"
)

// anonymousPerAddress is how many links an address may make without an account.
var anonymousPerAddress = ratelimit.Rate{Name: "anonymous-address", Attempts: 60, Window: time.Hour}

// claimPrefix tells a claim token from other secrets, for people and for scanners of leaked ones.
const claimPrefix = "claim_"

// CreateAnonymous makes a link that nobody owns and that ends after AnonymousTTL, and a token by
// which it can be claimed, which is told this once. The address is where the request came from, for
// the rate limit. It returns InvalidURL, UnsafeURL, RateLimited, or Forbidden where links need an
// account.
func (s *Store) CreateAnonymous(ctx context.Context, address, url string) (l *Link, claimToken string, err error) {
	if s.AnonymousTTL == 0 {
		return nil, "", errs.New(errs.Forbidden, "This instance makes no links without an account. Log in, and use "+
			"createLink.")
	}
	if err := s.Limits.Charge(ctx, anonymousPerAddress, address); err != nil {
		return nil, "", err
	}
	claimToken = claimPrefix + rand.Text()
	end := s.now().Add(s.AnonymousTTL)
	l, _, err = s.Create(ctx, workspace.Public(), New{URL: url, ExpiresAt: &end, claimHash: claimHash(claimToken)})
	return l, claimToken, err
}

// claimHash is what is kept of a claim token. The token is random enough to need no salt.
func claimHash(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}
