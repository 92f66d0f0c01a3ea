package account

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

// The limits of wrong passwords. Those of an account and address bound guessing from one place.
// Beyond the wide limit of an account, which bounds guessing from many places, each address has one
// attempt left, so that nobody can lock the owner out from elsewhere. The limit of an address grows
// with repeated failures; the others do not.
var (
	wrongFromAddress = ratelimit.Rate{Name: "wrong-account-address", Attempts: 10, Window: 15 * time.Minute}
	wrongOfAccount   = ratelimit.Rate{Name: "wrong-account", Attempts: 100, Window: 15 * time.Minute}
	lastFromAddress  = ratelimit.Rate{Name: "last-account-address", Attempts: 1, Window: 15 * time.Minute}
	wrongOfSession   = ratelimit.Rate{Name: "wrong-session", Attempts: 10, Window: 15 * time.Minute}
	wrongPerAddress  = ratelimit.Rate{
		Name: "wrong-address", Attempts: 100, Window: 15 * time.Minute, MaxWait: time.Hour,
	}
)

// The limits of correct passwords, each of which costs as much as a wrong one.
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

// counter is the count of a rate for a subject.
type counter struct {
	rate    ratelimit.Rate
	subject string
}

// authenticate compares the password with the account's. An empty account, of an unknown address,
// takes as long as another. Only wrong passwords count towards the limits of wrong passwords. It
// returns BadCredentials, RateLimited or Unavailable.
func (s *Store) authenticate(ctx context.Context, a *Account, password string, by attempt) error {
	charged, err := s.chargeAttempt(ctx, by)
	if err != nil {
		return err
	}
	matches, err := s.Passwords.Matches(ctx, by.address, a.PasswordHash, password)
	if matches || err != nil { // a password that was not compared reveals nothing to an attacker
		s.refund(ctx, charged)
	}
	if err != nil {
		return err
	}
	if !matches {
		return errBadLogin()
	}
	if err := s.Limits.Charge(ctx, rightOfAccount, a.ID); err != nil {
		return err
	}
	return s.Limits.Charge(ctx, rightPerAddress, by.address)
}

// chargeAttempt counts an attempt as wrong until it is refunded. It returns RateLimited, and then
// has counted nothing.
func (s *Store) chargeAttempt(ctx context.Context, by attempt) (charged []counter, err error) {
	own := counter{wrongFromAddress, by.email + " " + by.address}
	if by.session != "" {
		own = counter{wrongOfSession, by.session}
	}
	for _, c := range []counter{{wrongPerAddress, by.address}, own} {
		if err := s.Limits.Charge(ctx, c.rate, c.subject); err != nil {
			s.refund(ctx, charged)
			return nil, err
		}
		charged = append(charged, c)
	}
	if by.session != "" {
		return charged, nil
	}
	wide := counter{wrongOfAccount, by.email}
	if s.Limits.Charge(ctx, wide.rate, wide.subject) == nil {
		return append(charged, wide), nil
	}
	last := counter{lastFromAddress, own.subject}
	if err := s.Limits.Charge(ctx, last.rate, last.subject); err != nil {
		s.refund(ctx, charged)
		return nil, err
	}
	return append(charged, last), nil
}

func (s *Store) refund(ctx context.Context, charged []counter) {
	for _, c := range charged {
		s.Limits.Refund(context.WithoutCancel(ctx), c.rate, c.subject)
	}
}

// forgive deletes the counts of wrong passwords of an account that its owner has proved to be theirs.
func (s *Store) forgive(ctx context.Context, email, address string) {
	for _, c := range []counter{
		{wrongOfAccount, email}, {wrongFromAddress, email + " " + address}, {lastFromAddress, email + " " + address},
	} {
		s.Limits.Reset(context.WithoutCancel(ctx), c.rate, c.subject)
	}
}

// ChargeLogins counts login attempts of an address that were refused before they were executed.
func (s *Store) ChargeLogins(ctx context.Context, address string, attempts int) {
	_, _ = s.Limits.Spend(ctx, wrongPerAddress, address, int64(attempts)) // they are refused already
}

func errBadLogin() error {
	return errs.New(errs.BadCredentials, "The e-mail address or the password is wrong.")
}
