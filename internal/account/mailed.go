package account

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

const (
	// mailedPrefix identifies mailed tokens to users and secret scanners.
	mailedPrefix = "mailed_"
	// requestTakes is the minimum duration of RequestPasswordReset, which hides whether a token was
	// stored.
	requestTakes = 250 * time.Millisecond
)

// Unknown e-mail addresses count like known ones.
var (
	verificationsPerAccount = ratelimit.Rate{Name: "verification-account", Attempts: 5, Window: time.Hour}
	requestsPerEmail        = ratelimit.Rate{Name: "reset-email", Attempts: 3, Window: time.Hour}
	requestsPerAddress      = ratelimit.Rate{Name: "reset-address", Attempts: 20, Window: time.Hour}
	// resetsPerAddress bounds the hashing; tokens themselves are too long to be guessed.
	resetsPerAddress = ratelimit.Rate{Name: "reset-token-address", Attempts: 100, Window: time.Hour}
)

// purpose is the use of a mailed token.
type purpose struct {
	name string
	life time.Duration
	// subject and request are texts of the message.
	subject, request string
	// hasPage means that the message has the URL of PasswordPage with the token, and not the token alone.
	hasPage bool
}

// The messages contain no user-supplied text, such as a name: their addresses are not verified.
var (
	verifyEmail = purpose{
		name: "VERIFY_EMAIL", life: 24 * time.Hour, subject: "Confirm your e-mail address",
		request: "An account on %s was made with this e-mail address. To confirm that it is yours, call the mutation " +
			"verifyEmail with this token:",
	}
	resetPassword = purpose{
		name: "RESET_PASSWORD", life: time.Hour, subject: "Choose a new password", hasPage: true,
		request: "Somebody wants to choose a new password for your account on %s. If that is you, open this page, or call the " +
			"mutation resetPassword with the token behind the #:",
	}
)

// mailedToken is the row of a mailed token; only the hash is stored.
type mailedToken struct {
	bun.BaseModel `bun:"table:mailed_tokens"`

	Hash      []byte `bun:",pk"`
	AccountID string
	Purpose   string
	ExpiresAt time.Time
}

// mailed is a token before it is sent.
type mailed struct {
	purpose purpose
	token   string
	expires time.Time
}

// RequestVerification mails the actor a token that verifies their address, unless it is verified.
// It returns InvalidInput for another address, RateLimited or Unauthenticated.
func (s *Store) RequestVerification(ctx context.Context, a Actor, email string) error {
	account, err := s.actorAccount(ctx, a)
	if err != nil {
		return err
	}
	if fold(email) != account.Email {
		return errs.New(errs.InvalidInput, "This is not the address of your account.").At("email")
	}
	if account.EmailVerified() {
		return nil
	}
	if err := s.Limits.Charge(ctx, verificationsPerAccount, account.ID); err != nil {
		return err
	}
	verification, err := s.newMailed(ctx, s.DB, account.ID, verifyEmail)
	if err != nil {
		return fmt.Errorf("storing a verification: %w", err)
	}
	s.mail(ctx, account, verification)
	return nil
}

// VerifyEmail consumes a mailed token, which proves that its bearer reads mail at the address. It
// returns BadCredentials.
func (s *Store) VerifyEmail(ctx context.Context, token string) (verified *Account, err error) {
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		accountID, err := s.consume(ctx, tx, verifyEmail, token)
		if err != nil {
			return err
		}
		verified, err = s.setVerified(ctx, tx, accountID, nil)
		return err
	})
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "verifying an e-mail address")
	}
	return verified, nil
}

// RequestPasswordReset mails a token that resets the password, if the address has an account.
// Neither the result nor the duration reveals whether it has one. It returns RateLimited.
func (s *Store) RequestPasswordReset(ctx context.Context, email string, from Origin) error {
	email = fold(email)
	if err := s.Limits.Charge(ctx, requestsPerAddress, from.Address); err != nil {
		return err
	}
	if err := s.Limits.Charge(ctx, requestsPerEmail, email); err != nil {
		return err
	}
	start := time.Now()
	err := s.mailReset(ctx, email)
	_ = poll.Wait(ctx, requestTakes-time.Since(start)) // a client that disconnects learns nothing either
	return err
}

// mailReset runs the same statements for an unknown address; they match no rows.
func (s *Store) mailReset(ctx context.Context, email string) error {
	account, err := s.byEmail(ctx, email)
	if err != nil {
		return err
	}
	reset, err := s.replaceReset(ctx, account.ID, resetPassword)
	if err != nil {
		return err
	}
	if account.ID != "" {
		s.mail(ctx, account, reset)
	}
	return nil
}

// replaceReset stores a token that resets the password, in place of earlier ones.
func (s *Store) replaceReset(ctx context.Context, accountID string, p purpose) (reset mailed, err error) {
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := dropMailed(ctx, tx, accountID, p); err != nil {
			return err
		}
		reset, err = s.newMailed(ctx, tx, accountID, p)
		return err
	})
	if err != nil {
		err = fmt.Errorf("storing a password reset: %w", err)
	}
	return reset, err
}

// ResetPassword consumes a mailed token, replaces the password, ends all sessions and marks the
// address as verified. It returns BadCredentials, InvalidInput or RateLimited.
func (s *Store) ResetPassword(ctx context.Context, token, password string, from Origin) (account *Account, err error) {
	if err := s.Limits.Charge(ctx, resetsPerAddress, from.Address); err != nil {
		return nil, err
	}
	known, err := s.recipient(ctx, resetPassword, token)
	if err != nil {
		return nil, err
	}
	hash, err := s.newPassword(ctx, from.Address, known.Email, password)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		account, err = s.reset(ctx, tx, known.ID, token, hash)
		return err
	})
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "resetting a password")
	}
	// The owner is no longer locked out by an attacker's guesses.
	s.forgive(ctx, account.Email, from.Address)
	return account, nil
}

// reset consumes the token, which only one of several concurrent calls can.
func (s *Store) reset(ctx context.Context, tx bun.Tx, accountID, token, hash string) (*Account, error) {
	if err := s.lock(ctx, tx, accountID); err != nil {
		return nil, err
	}
	if _, err := s.consume(ctx, tx, resetPassword, token); err != nil {
		return nil, err
	}
	account, err := s.setVerified(ctx, tx, accountID, &hash)
	if err != nil {
		return nil, err
	}
	if err := dropMailed(ctx, tx, accountID, resetPassword); err != nil {
		return nil, err
	}
	return account, s.end(ctx, tx, "account_id = ?", accountID)
}

// setVerified marks the account's address as verified and, if hash is not nil, replaces the
// password. It returns sql.ErrNoRows if the account was deleted.
func (s *Store) setVerified(ctx context.Context, tx bun.Tx, accountID string, hash *string) (*Account, error) {
	var a Account
	now := s.now()
	_, err := tx.NewUpdate().Model(&a).Set("email_verified_at = COALESCE(email_verified_at, ?)", now).
		Set("updated_at = ?", now).Set("password_hash = COALESCE(?, password_hash)", hash).
		Where("id = ?", accountID).Where("deleted_at IS NULL").Returning("*").Exec(ctx)
	if err == nil && a.ID == "" {
		err = sql.ErrNoRows
	}
	return &a, err
}

// newMailed stores a token if the account exists and is enabled.
func (s *Store) newMailed(ctx context.Context, conn bun.IDB, accountID string, p purpose) (mailed, error) {
	m := mailed{purpose: p, token: mailedPrefix + rand.Text(), expires: s.now().Add(p.life)}
	_, err := conn.NewRaw("INSERT INTO mailed_tokens (hash, account_id, purpose, expires_at)"+
		" SELECT ?, id, ?, ? FROM accounts WHERE id = ? AND deleted_at IS NULL AND disabled_at IS NULL",
		HashSecret(m.token), p.name, m.expires, accountID).Exec(ctx)
	return m, err
}

// consume deletes a token. It returns sql.ErrNoRows for one that is unknown or expired.
func (s *Store) consume(ctx context.Context, tx bun.Tx, p purpose, token string) (accountID string, err error) {
	_, err = tx.NewDelete().Model((*mailedToken)(nil)).Where("hash = ?", HashSecret(token)).
		Where("purpose = ?", p.name).Where("expires_at > ?", s.now()).Returning("account_id").Exec(ctx, &accountID)
	return accountID, err
}

// recipient returns the account that a valid token was mailed to. It returns BadCredentials.
func (s *Store) recipient(ctx context.Context, p purpose, token string) (*Account, error) {
	var a Account
	err := s.DB.NewSelect().Model(&a).Join("JOIN mailed_tokens AS mailed ON mailed.account_id = account.id").
		Where("mailed.hash = ?", HashSecret(token)).Where("mailed.purpose = ?", p.name).
		Where("mailed.expires_at > ?", s.now()).Where("account.deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, db.NoRowsAs(errMailed(), err, "looking up a mailed token")
	}
	return &a, nil
}

func dropMailed(ctx context.Context, tx bun.Tx, accountID string, p purpose) error {
	_, err := tx.NewDelete().Model((*mailedToken)(nil)).
		Where("account_id = ?", accountID).Where("purpose = ?", p.name).Exec(ctx)
	return err
}

func (s *Store) sendsMail() bool { return s.Mail != nil && s.Mail.Configured() }

// mail sends the token to the account's address.
func (s *Store) mail(ctx context.Context, a *Account, m mailed) {
	if s.Mail == nil {
		return
	}
	token := m.token
	if m.purpose.hasPage {
		token = s.linkOf(m).URL
	}
	s.Mail.Send(ctx, a.Email, m.purpose.subject, fmt.Sprintf(m.purpose.request+
		"\n\n%s\n\nIt is good once, until %s. If you do not know what this is about, do nothing.\n",
		s.PublicURL, token, m.expires.Format("2006-01-02 15:04 MST")))
}

func errMailed() error {
	return errs.New(errs.BadCredentials, "The token is invalid or has expired. Request a new one.").At("token")
}
