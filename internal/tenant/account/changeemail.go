package account

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Update changes the name and the address of the actor's account; nil leaves one as it is. Where
// mail is sent, a new address counts when VerifyEmail has consumed the token that is mailed to it,
// unless the account's sessions were ended meanwhile; otherwise at once, and it is not verified. It
// returns InvalidInput, BadCredentials, EmailTaken or RateLimited.
func (s *Store) Update(
	ctx context.Context, actor Actor, name, email *string, p Proof, address string,
) (*Account, error) {
	a, err := s.Enabled(ctx, actor.AccountID)
	if err != nil {
		return nil, err
	}
	var spent proven
	var emailErr, nameErr error
	if email != nil {
		*email, emailErr = CheckEmail(*email)
	}
	if name != nil {
		*name, nameErr = validate.Line("The name", *name, 1, 100)
	}
	if err := errs.All(errs.At(nameErr, "name"), emailErr); err != nil {
		return nil, err
	}
	changes := email != nil && *email != a.Email
	if changes {
		if _, spent, err = s.requireProof(ctx, actor, p, address); err != nil {
			return nil, err
		}
		if err := s.Limits.Charge(ctx, verificationsPerAccount, a.ID); err != nil {
			return nil, err
		}
	}
	updated, change := a, mailed{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := s.lockFor(ctx, tx, actor); err != nil {
			return err
		}
		if err := s.spend(ctx, tx, a.ID, spent); err != nil {
			return err
		}
		if name != nil {
			if updated, err = s.updateAccount(ctx, tx, a.ID, "name = ?", *name); err != nil {
				return err
			}
		}
		switch {
		case email == nil:
			return nil
		case !changes: // takes a change back
			return dropFlows(ctx, tx, a.ID, kindChangeEmail)
		case !s.sendsMail():
			updated, err = s.setEmail(ctx, tx, a.ID, *email, nil)
			return err
		}
		if err := dropFlows(ctx, tx, a.ID, kindChangeEmail); err != nil {
			return err
		}
		change, err = s.newMailed(ctx, tx, a.ID, *email, changeEmail)
		return err
	})
	if err != nil {
		return nil, db.NoRowsAs(errNoAccount(), err, "updating an account")
	}
	s.noteRecovery(ctx, a, spent)
	if change.token != "" {
		s.mail(ctx, *email, change)
	}
	return updated, nil
}

// setEmail replaces the account's address. Links mailed to the old one are void. It returns
// EmailTaken.
func (s *Store) setEmail(
	ctx context.Context, tx bun.Tx, accountID, email string, verifiedAt *time.Time,
) (*Account, error) {
	a, err := s.updateAccount(ctx, tx, accountID, "email = ?, email_verified_at = ?", email, verifiedAt)
	if db.IsUniqueViolation(err) {
		return nil, errs.New(errs.EmailTaken, "Another account has this e-mail address.").At("email")
	}
	if err != nil {
		return nil, err
	}
	return a, dropFlows(ctx, tx, accountID, kindVerifyEmail, kindChangeEmail, kindResetPassword)
}

// VerifyEmail consumes a mailed token, which proves that its bearer reads mail at the address: the
// account's, or a new one, which replaces it, and the old one is notified. It returns
// BadCredentials, or EmailTaken if another account has the new one by now.
func (s *Store) VerifyEmail(ctx context.Context, token string) (verified *Account, err error) {
	before := &Account{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		f, err := s.consume(ctx, tx, HashSecret(token), kindVerifyEmail, kindChangeEmail)
		if err != nil {
			return err
		}
		if f.Kind == kindVerifyEmail {
			verified, err = s.setVerified(ctx, tx, f.AccountID, nil)
			return err
		}
		if err := s.lock(ctx, tx, f.AccountID); err != nil {
			return err
		}
		if err := tx.NewSelect().Model(before).Where("id = ?", f.AccountID).Scan(ctx); err != nil {
			return err
		}
		verified, err = s.setEmail(ctx, tx, f.AccountID, f.Data, new(s.now()))
		return err
	})
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "verifying an e-mail address")
	}
	if before.ID != "" {
		s.notify(ctx, before, "Your e-mail address was changed",
			"Your account on %s has another e-mail address now, and receives its mail there.")
	}
	return verified, nil
}
