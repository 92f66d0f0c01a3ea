package account

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// The limits of wrong passwords. The limits of an account and address bound guessing from one
// place. Beyond the wide limit of an account, which bounds guessing from many places, each address
// has one attempt left. So no attacker can lock out the owner from another address. The limits of
// an address and its site grow with repeated failures; the others do not.
var (
	wrongFromAddress = ratelimit.Rate{Name: "wrong-account-address", Attempts: 10, Window: 15 * time.Minute}
	wrongOfAccount   = ratelimit.Rate{Name: "wrong-account", Attempts: 100, Window: 15 * time.Minute}
	lastFromAddress  = ratelimit.Rate{Name: "last-account-address", Attempts: 1, Window: 15 * time.Minute}
	wrongOfSession   = ratelimit.Rate{Name: "wrong-session", Attempts: 10, Window: 15 * time.Minute}
	wrongPerAddress  = ratelimit.Rate{
		Name: "wrong-address", Attempts: 100, Window: 15 * time.Minute, MaxWait: time.Hour,
	}
)

// The limits of correct passwords. A correct password costs as much as a wrong one.
var (
	rightOfAccount  = ratelimit.Rate{Name: "right-account", Attempts: 60, Window: 15 * time.Minute}
	rightPerAddress = ratelimit.Rate{Name: "right-address", Attempts: 600, Window: 15 * time.Minute}
)

// attempt is a password to be checked, and where it comes from.
type attempt struct {
	email, address string
	// session is that of the logged-in account, or empty for a log-in.
	session string
}

// subject is whose turn the comparison with the password of an account takes: that of the account
// in a session of it, else that of the network.
func (by attempt) subject(a *Account) string {
	if by.session != "" {
		return a.ID
	}
	return web.Holder(by.address)
}

// checkPassword compares the password with the account's. An empty account, of an unknown address,
// takes as long as another. Only wrong passwords count towards the limits of wrong passwords. It
// returns BadCredentials, RateLimited or Unavailable.
func (s *Store) checkPassword(ctx context.Context, a *Account, password string, by attempt) error {
	charged, err := s.chargeAttempt(ctx, by)
	if err != nil {
		return err
	}
	matches, err := s.Passwords.Matches(ctx, a.PasswordHash, password, by.subject(a))
	if matches || err != nil { // a password that was not compared reveals nothing to an attacker
		s.Limits.Refund(ctx, charged...)
	}
	if err != nil {
		return err
	}
	if !matches {
		return errBadLogin()
	}
	return s.chargeRight(ctx, a.ID, by.address)
}

// chargeRight counts the work of a correct password, or of another proof in its place. It returns
// RateLimited.
func (s *Store) chargeRight(ctx context.Context, accountID, address string) error {
	if err := s.Limits.Charge(ctx, rightOfAccount, accountID); err != nil {
		return err
	}
	return s.Limits.SpendFrom(ctx, rightPerAddress, 1, address)
}

// chargeAttempt counts an attempt as wrong until it is refunded. It returns RateLimited, and then
// has counted nothing.
func (s *Store) chargeAttempt(ctx context.Context, by attempt) ([]ratelimit.Charged, error) {
	all := ratelimit.OfNetwork(wrongPerAddress, by.address)
	if by.session != "" {
		return s.Limits.ChargeAll(ctx, append(all, ratelimit.Counter{Rate: wrongOfSession, Subject: by.session})...)
	}
	all = append(all, ratelimit.OfNetwork(wrongFromAddress, by.address, by.email)...)
	return s.Limits.ChargeEither(ctx, ratelimit.Counter{Rate: wrongOfAccount, Subject: by.email},
		ratelimit.Counter{Rate: lastFromAddress, Subject: by.email + " " + by.address}, all...)
}

// forgive deletes the counts of wrong passwords of an account that its owner has proved to be
// theirs.
func (s *Store) forgive(ctx context.Context, email, address string) {
	for _, c := range append(ratelimit.OfNetwork(wrongFromAddress, address, email),
		ratelimit.Counter{Rate: wrongOfAccount, Subject: email},
		ratelimit.Counter{Rate: lastFromAddress, Subject: email + " " + address}) {
		s.Limits.Reset(ctx, c.Rate, c.Subject)
	}
}

// ChargeLogins counts login attempts of an address that were refused before they were executed.
func (s *Store) ChargeLogins(ctx context.Context, address string, attempts int) {
	_ = s.Limits.SpendFrom(ctx, wrongPerAddress, int64(attempts), address) // they are refused already
}

func errBadLogin() error {
	return errs.New(errs.BadCredentials, "The e-mail address or the password is wrong.")
}
