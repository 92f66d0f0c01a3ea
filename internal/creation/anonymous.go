package creation

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/workspace"
)

// anonymousPerAddress is how many links a client address may create without an account.
var anonymousPerAddress = ratelimit.Rate{Name: "anonymous-address", Attempts: 60, Window: time.Hour}

// claimPrefix identifies claim tokens, for users and for secret scanners.
const claimPrefix = "claim_"

// CreateAnonymous creates a link without an owner that expires after AnonymousTTL, and the token
// for claiming it, which is not stored. The address is the client's, for the rate limit. It returns
// InvalidURL, UnsafeURL, RateLimited, or Forbidden where links need an account.
func (s *Store) CreateAnonymous(ctx context.Context, address, url string) (l *link.Link, claimToken string, err error) {
	if s.config.AnonymousTTL == 0 {
		return nil, "", errs.New(errs.Forbidden, "This instance makes no links without an account. Log in, and use "+
			"createLink.")
	}
	if err := s.config.Limits.Charge(ctx, anonymousPerAddress, address); err != nil {
		return nil, "", err
	}
	claimToken = claimPrefix + rand.Text()
	end := s.now().Add(s.config.AnonymousTTL)
	l, _, err = s.Create(ctx, workspace.Public(), Input{URL: url, ExpiresAt: &end, ClaimHash: link.HashClaim(claimToken)})
	return l, claimToken, err
}
