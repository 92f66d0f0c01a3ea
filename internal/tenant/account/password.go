package account

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// ChangePassword replaces the actor's password and ends their other sessions and mailed resets. It
// returns BadCredentials, InvalidInput or RateLimited.
func (s *Store) ChangePassword(ctx context.Context, a Actor, p Proof, password, address string) (*Account, error) {
	if err := checkNew(password, ""); err != nil {
		return nil, err
	}
	account, spent, err := s.requireProof(ctx, a, p, address)
	if err != nil {
		return nil, err
	}
	if p.Method() != Password { // checkPassword has counted a password
		if err := s.chargeRight(ctx, account.ID, address); err != nil {
			return nil, err
		}
	}
	hash, err := s.newPassword(ctx, account, password)
	if err != nil {
		return nil, err
	}
	// During hashing the account may have been deleted, or its password reset.
	err = s.endSessions(ctx, a, func(ctx context.Context, tx bun.Tx) error {
		if err := s.spend(ctx, tx, account.ID, spent); err != nil {
			return err
		}
		n, err := db.Affected(tx.NewUpdate().Model(account).Set("password_hash = ?", hash).
			Set("updated_at = ?", s.now()).
			WherePK().Where("password_hash = ?", account.PasswordHash).Exec(ctx))
		if err == nil && n == 0 {
			err = sql.ErrNoRows
		}
		if err == nil {
			err = dropFlows(ctx, tx, account.ID, kindResetPassword)
		}
		return err
	})
	if err != nil {
		stale := errs.New(errs.BadCredentials, "This is no longer the current password.").At(p.Field)
		return nil, db.NoRowsAs(stale, err, "changing a password")
	}
	s.noteRecovery(ctx, account, spent)
	account.PasswordHash = hash
	return account, nil
}

// RequestPasswordReset mails a token that resets the password, if the address has an account.
// Neither the result nor the duration reveals whether it has one. It returns RateLimited.
func (s *Store) RequestPasswordReset(ctx context.Context, email string, from Client) error {
	email = fold(email)
	if err := s.Limits.SpendFrom(ctx, requestsPerAddress, 1, from.Address); err != nil {
		return err
	}
	if err := s.Limits.Charge(ctx, requestsPerEmail, email); err != nil {
		return err
	}
	start := time.Now()
	err := s.mailReset(ctx, email)
	_ = poll.Wait(ctx, minResetDuration-time.Since(start)) // a client that disconnects learns nothing either
	return err
}

// mailReset runs the same statements for an unknown address; they match no rows. Earlier tokens
// stay valid: an anonymous request for one must not void the link that the operator has passed on.
func (s *Store) mailReset(ctx context.Context, email string) error {
	account, err := s.byEmail(ctx, email)
	if err != nil {
		return err
	}
	if s.PasswordsOff && !slices.Contains(s.BreakGlass, account.Email) {
		account = &Account{}
	}
	reset, err := s.newMailed(ctx, s.DB, account.ID, "", resetPassword)
	if err != nil {
		return fmt.Errorf("storing a password reset: %w", err)
	}
	if account.ID != "" {
		s.mail(ctx, account.Email, reset)
	}
	return nil
}

// ResetPassword consumes a mailed token, replaces the password, ends all sessions and marks the
// address as verified. An account with a second factor has to prove it, too. It returns
// BadCredentials, InvalidInput or RateLimited.
func (s *Store) ResetPassword(
	ctx context.Context, token, password string, factor Proof, from Client,
) (account *Account, err error) {
	if err := checkNew(password, ""); err != nil {
		return nil, err
	}
	if err := s.Limits.SpendFrom(ctx, resetsPerAddress, 1, from.Address); err != nil {
		return nil, err
	}
	known, err := s.recipient(ctx, token)
	if err != nil {
		return nil, err
	}
	hash, err := s.newPassword(ctx, known, password)
	if err != nil {
		return nil, err
	}
	var spent proven
	if factor.Method() == TOTP || factor.Method() == RecoveryCode {
		if spent, err = s.checkProof(ctx, known, factor,
			attempt{email: known.Email, address: from.Address}); err != nil {
			return nil, err
		}
	}
	err = s.endSessions(ctx, Actor{AccountID: known.ID}, func(ctx context.Context, tx bun.Tx) (err error) {
		account, err = s.reset(ctx, tx, known.ID, token, hash, spent)
		return err
	})
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "resetting a password")
	}
	s.noteRecovery(ctx, account, spent)
	// The owner is no longer locked out by an attacker's guesses.
	s.forgive(ctx, account.Email, from.Address)
	return account, nil
}

// reset spends the token and the factor, which only one of several concurrent calls can.
func (s *Store) reset(ctx context.Context, tx bun.Tx, accountID, token, hash string, factor proven) (*Account, error) {
	has, err := s.hasFactor(ctx, tx, accountID)
	if err != nil {
		return nil, err
	}
	if has && factor.method == "" {
		return nil, errs.New(errs.BadCredentials,
			"The account has a second factor. Send a code of its authenticator app, or a recovery code.").
			At("secondFactor")
	}
	if err := s.spend(ctx, tx, accountID, factor); err != nil {
		return nil, err
	}
	if _, err := s.consume(ctx, tx, HashSecret(token), kindResetPassword); err != nil {
		return nil, err
	}
	if err := dropFlows(ctx, tx, accountID, kindResetPassword); err != nil {
		return nil, err
	}
	return s.setVerified(ctx, tx, accountID, &hash)
}

// recipient returns the account whose password a valid token resets. It returns BadCredentials.
func (s *Store) recipient(ctx context.Context, token string) (*Account, error) {
	var a Account
	err := s.DB.NewSelect().Model(&a).Join("JOIN auth_flows AS mailed ON mailed.account_id = account.id").
		Where("mailed.hash = ?", HashSecret(token)).Where("mailed.kind = ?", kindResetPassword).
		Where("mailed.expires_at > ?", s.now()).Where("account.deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "looking up a mailed token")
	}
	return &a, nil
}

// newPassword checks and hashes a password that replaces the account's. It returns InvalidInput.
func (s *Store) newPassword(ctx context.Context, a *Account, password string) (hash string, err error) {
	if err := checkNew(password, a.Email); err != nil {
		return "", err
	}
	return s.Passwords.Hash(ctx, password, a.ID)
}

// checkNew is CheckPassword for the field of a new password. Without the address of the account, it
// is what can be said before the caller has proved who it is.
func checkNew(password, email string) error {
	return errs.At(CheckPassword(password, email), "newPassword")
}
