package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	if email != nil {
		if *email, err = CheckEmail(*email); err != nil {
			return nil, err
		}
	}
	if name != nil {
		if *name, err = validate.Line("The name", *name, 1, 100); err != nil {
			return nil, errs.From(err).At("name")
		}
	}
	changes := email != nil && *email != a.Email
	if changes {
		if _, spent, err = s.prove(ctx, actor, p, address); err != nil {
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

// updateAccount sets columns of an account. It returns sql.ErrNoRows if it was deleted.
func (s *Store) updateAccount(ctx context.Context, tx bun.Tx, accountID, set string, args ...any) (*Account, error) {
	var a Account
	_, err := tx.NewUpdate().Model(&a).Set(set, args...).Set("updated_at = ?", s.now()).
		Where("id = ?", accountID).Where("deleted_at IS NULL").Returning("*").Exec(ctx, &a)
	return &a, err
}

// Private is what only the user of an account may see.
type Private struct {
	// PendingEmail is the new address that waits for its verification; empty without one.
	PendingEmail string
	Factors      Factors
	// Identities are those at identity providers, newest first.
	Identities []*Identity
}

// PrivateOf returns what only the users of the accounts may see, by account ID.
func (s *Store) PrivateOf(ctx context.Context, accountIDs ...string) (map[string]*Private, error) {
	found := make(map[string]*Private, len(accountIDs))
	for _, accountID := range accountIDs {
		p := &Private{}
		var err error
		if p.Factors, err = s.FactorsOf(ctx, accountID); err != nil {
			return nil, err
		}
		err = s.DB.NewSelect().Model((*flow)(nil)).Column("data").Where("account_id = ?", accountID).
			Where("kind = ?", kindChangeEmail).
			Where("expires_at > ?", s.now()).Scan(ctx, &p.PendingEmail)
		if err == nil || errors.Is(err, sql.ErrNoRows) {
			err = s.DB.NewSelect().Model(&p.Identities).Where("account_id = ?", accountID).
				Order("created_at DESC", "subject").Scan(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("reading private data of an account: %w", err)
		}
		found[accountID] = p
	}
	return found, nil
}
