package account

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

const (
	// challengePrefix identifies the tokens of challenges to users and secret scanners.
	challengePrefix = "challenge_"
	challengeTTL    = 10 * time.Minute
	// maxTries is how many proofs may be presented to a challenge.
	maxTries = 5
)

// Challenge is a login that needs another proof, by one of the methods.
type Challenge struct {
	Token     string
	Methods   []Method
	ExpiresAt time.Time
}

// pendingLogin is a login whose proofs so far were right. A challenge stores it.
type pendingLogin struct {
	Methods Methods `json:"methods"`
	// Identity is linked to the account; nil for a login without a provider.
	Identity *Identity `json:"identity,omitempty"`
	// EndsAt is that of the session.
	EndsAt *time.Time `json:"endsAt,omitempty"`
	// Groups are those of sso.User.
	Groups []string `json:"groups"`

	account *Account
	// challenge is the hash of the challenge that it completes; nil for none. spent is the proof
	// that completes it.
	challenge []byte
	spent     proven
}

// missingMethods returns alternative methods if the login still needs one of them; none if its
// proofs are enough. To connect an identity always takes the password of the account.
func (s *Store) missingMethods(pending pendingLogin, hasFactor bool) []Method {
	isEnough := s.provesFactor(pending.Methods)
	if pending.Identity != nil {
		if !pending.Methods.has(Password) {
			return []Method{Password}
		}
		isEnough = pending.Methods.has(TOTP, RecoveryCode)
	}
	if !hasFactor || isEnough {
		return nil
	}
	return []Method{TOTP, RecoveryCode}
}

// proceed starts the session of a login, or a challenge for its missing proof. It returns
// BadCredentials.
func (s *Store) proceed(ctx context.Context, pending pendingLogin, from Client) (Login, error) {
	has, err := s.hasFactor(ctx, s.DB, pending.account.ID)
	if err != nil {
		return Login{}, err
	}
	missing := s.missingMethods(pending, has)
	if len(missing) == 0 {
		return s.beginSession(ctx, pending, from)
	}
	c := &Challenge{Token: challengePrefix + rand.Text(), Methods: missing,
		ExpiresAt: s.expiry(challengeTTL, pending.EndsAt)}
	data, err := json.Marshal(pending)
	if err != nil {
		return Login{}, fmt.Errorf("encoding a challenge: %w", err)
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		f := flow{Kind: kindLogin, AccountID: pending.account.ID, Data: string(data), ExpiresAt: c.ExpiresAt}
		if err := s.newFlow(ctx, tx, c.Token, f); err != nil {
			return err
		}
		return s.settle(ctx, tx, pending)
	})
	if err != nil {
		return Login{}, fmt.Errorf("storing a challenge: %w", err)
	}
	return Login{Challenge: c}, nil
}

// settle spends the challenge and the proof of a login, after a statement that waits for
// transactions that have locked the account. It returns BadCredentials if the account was deleted
// or disabled, or its password was changed meanwhile, and Expired for a challenge that was used.
func (s *Store) settle(ctx context.Context, tx bun.Tx, pending pendingLogin) error {
	isUnchanged, err := s.isUnchanged(ctx, tx, pending.account)
	if err != nil {
		return err
	}
	if !isUnchanged {
		return errBadLogin()
	}
	if pending.challenge != nil {
		if _, err := s.consume(ctx, tx, pending.challenge, kindLogin); err != nil {
			return db.NoRowsAs(errChallenge(), err, "consuming a challenge")
		}
	}
	return s.spend(ctx, tx, pending.account.ID, pending.spent)
}

// CompleteLogin completes a login with another proof, or returns the challenge for a further one.
// It returns BadCredentials, Expired or RateLimited.
func (s *Store) CompleteLogin(ctx context.Context, token string, p Proof, from Client) (Login, error) {
	hash := HashSecret(token)
	var f flow
	_, err := s.DB.NewUpdate().Model(&f).Set("tries = tries + 1").Where("hash = ?", hash).Where("kind = ?", kindLogin).
		Where("tries < ?", maxTries).Where("expires_at > ?", s.now()).Returning("*").Exec(ctx, &f)
	if err != nil {
		return Login{}, db.NoRowsAs(errChallenge(), err, "looking up a challenge")
	}
	a, err := s.Enabled(ctx, f.AccountID)
	if errs.Is(err, errs.Unauthenticated) {
		err = errChallenge()
	}
	if err != nil {
		return Login{}, err
	}
	pending := pendingLogin{account: a, challenge: hash}
	if err := json.Unmarshal([]byte(f.Data), &pending); err != nil {
		return Login{}, fmt.Errorf("decoding a challenge: %w", err)
	}
	if pending.Methods.has(Provider) && s.SSO == nil { // the operator has removed the provider meanwhile
		return Login{}, errChallenge()
	}
	if !slices.Contains(s.missingMethods(pending, true), p.Method()) {
		return Login{}, errs.New(errs.BadCredentials, "This challenge takes a proof by one of its methods only.").
			At(p.Field)
	}
	if pending.spent, err = s.checkProof(ctx, a, p, attempt{email: a.Email, address: from.Address}); err != nil {
		return Login{}, err
	}
	pending.Methods = pending.Methods.and(p.Method())
	return s.proceed(ctx, pending, from)
}

func errChallenge() error {
	return errs.New(errs.Expired, "The challenge has expired, was used, or had too many wrong proofs. Log in again.").
		At("challenge")
}
