package account

import (
	"context"

	"github.com/linkforge/linkforge/internal/errs"
)

// Confirm proves anew that the actor is who they say, before something that cannot be taken back. It returns
// BadCredentials, RateLimited or Unauthenticated.
func (s *Store) Confirm(ctx context.Context, a Actor, password, address string) (*Account, error) {
	account, err := s.of(ctx, a)
	if err != nil {
		return nil, err
	}
	err = s.prove(ctx, account, account.Email, password, address)
	if errs.Is(err, errs.BadCredentials) {
		return nil, errs.New(errs.BadCredentials, "This is not the current password.").At("password")
	}
	return account, err
}

// ChargeLogins counts attempts to log in against an address which were refused before anybody looked at them.
func (s *Store) ChargeLogins(ctx context.Context, address string, attempts int) {
	_, _ = s.Limits.Spend(ctx, loginsPerAddress, address, int64(attempts)) // refused they are already
}
