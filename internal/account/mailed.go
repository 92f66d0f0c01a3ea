package account

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/pause"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

// mailedPrefix tells a mailed token from other secrets, for people and for scanners of leaked ones.
const mailedPrefix = "mailed_"

// requestTakes is how long it takes to ask for a new password, at least: to keep a token and to keep none do not take
// the same time.
const requestTakes = 250 * time.Millisecond

// The short-term limits. Unknown e-mail addresses are counted as known ones are.
var (
	verificationsPerAccount = ratelimit.Rate{Name: "verification-account", Attempts: 5, Window: time.Hour}
	requestsPerEmail        = ratelimit.Rate{Name: "reset-email", Attempts: 3, Window: time.Hour}
	requestsPerAddress      = ratelimit.Rate{Name: "reset-address", Attempts: 20, Window: time.Hour}
	// resetsPerAddress is for the hashing: tokens themselves are too long to be guessed.
	resetsPerAddress = ratelimit.Rate{Name: "reset-token-address", Attempts: 100, Window: time.Hour}
)

// purpose is what a token is mailed for.
type purpose struct {
	name string
	life time.Duration
	// subject and reason are the letter's, mutation is what takes the token.
	subject, reason, mutation string
}

// The letters say nothing that people have typed, such as a name: they go to addresses that nobody has proved.
var (
	verifyEmail = purpose{
		name: "VERIFY_EMAIL", life: 24 * time.Hour, mutation: "verifyEmail", subject: "Confirm your e-mail address",
		reason: "An account on %s was made with this e-mail address. To confirm that it is yours",
	}
	resetPassword = purpose{
		name: "RESET_PASSWORD", life: time.Hour, mutation: "resetPassword", subject: "Choose a new password",
		reason: "Somebody wants to choose a new password for your account on %s. If that is you",
	}
)

// mailedToken is a token that was mailed; the token itself is not kept.
type mailedToken struct {
	bun.BaseModel `bun:"table:mailed_tokens"`

	Hash      []byte `bun:",pk"`
	AccountID string
	Purpose   string
	ExpiresAt time.Time
}

// mailed is a token on its way.
type mailed struct {
	purpose purpose
	token   string
	expires time.Time
}

// RequestVerification mails the actor what proves their address, unless it is proved. It returns InvalidInput for any
// other address, RateLimited or Unauthenticated.
func (s *Store) RequestVerification(ctx context.Context, a Actor, email string) error {
	account, err := s.of(ctx, a)
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
		return fmt.Errorf("keeping a verification: %w", err)
	}
	s.mail(ctx, account, verification)
	return nil
}

// VerifyEmail takes a token that was mailed: whoever has it reads what is sent to the address. It returns
// BadCredentials.
func (s *Store) VerifyEmail(ctx context.Context, token string) (*Account, error) {
	var verified *Account
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		accountID, err := s.take(ctx, tx, verifyEmail, token)
		if err != nil {
			return err
		}
		verified, err = s.proved(ctx, tx, accountID, nil)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errMailed()
	}
	if err != nil {
		return nil, fmt.Errorf("verifying an e-mail address: %w", err)
	}
	return verified, nil
}

// RequestPasswordReset mails whoever has an account of the address what it takes to choose a new password. Whether
// there is one shows neither in the answer nor in the time it takes. It returns RateLimited.
func (s *Store) RequestPasswordReset(ctx context.Context, email string, from Origin) error {
	email = fold(email)
	if err := s.Limits.Charge(ctx, requestsPerAddress, from.Address); err != nil {
		return err
	}
	if err := s.Limits.Charge(ctx, requestsPerEmail, email); err != nil {
		return err
	}
	began := time.Now()
	err := s.mailReset(ctx, email)
	_ = pause.For(ctx, requestTakes-time.Since(began)) // whoever has gone learns nothing either
	return err
}

// mailReset does the same with an empty account, but for what the database finds nothing to do for.
func (s *Store) mailReset(ctx context.Context, email string) error {
	account, err := s.byEmail(ctx, email)
	if err != nil {
		return err
	}
	var reset mailed
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := dropMailed(ctx, tx, account.ID, resetPassword); err != nil {
			return err
		}
		reset, err = s.newMailed(ctx, tx, account.ID, resetPassword)
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping a password reset: %w", err)
	}
	if account.ID != "" {
		s.mail(ctx, account, reset)
	}
	return nil
}

// ResetPassword takes a token that was mailed, replaces the password and ends all sessions. The address is proved by
// that, too. It returns BadCredentials, InvalidInput or RateLimited.
func (s *Store) ResetPassword(ctx context.Context, token, password string, from Origin) (*Account, error) {
	if err := s.Limits.Charge(ctx, resetsPerAddress, from.Address); err != nil {
		return nil, err
	}
	known, err := s.mailedTo(ctx, resetPassword, token)
	if err != nil {
		return nil, err
	}
	if err := checkPassword(password, known.Email); err != nil {
		return nil, errs.From(err).At("newPassword")
	}
	hash, err := s.Passwords.hash(ctx, password)
	if err != nil {
		return nil, err
	}
	var account *Account
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		account, err = s.reset(ctx, tx, known.ID, token, hash)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errMailed()
	}
	if err != nil {
		return nil, fmt.Errorf("resetting a password: %w", err)
	}
	s.Limits.Forget(context.WithoutCancel(ctx), loginsPerAccount, account.Email) // whoever has guessed keeps its owner out no longer
	return account, nil
}

// reset lets the token decide who is first, however many have come this far with it.
func (s *Store) reset(ctx context.Context, tx bun.Tx, accountID, token, hash string) (*Account, error) {
	if err := s.lock(ctx, tx, accountID); err != nil {
		return nil, err
	}
	if _, err := s.take(ctx, tx, resetPassword, token); err != nil {
		return nil, err
	}
	account, err := s.proved(ctx, tx, accountID, &hash)
	if err != nil {
		return nil, err
	}
	if err := dropMailed(ctx, tx, accountID, resetPassword); err != nil {
		return nil, err
	}
	return account, s.end(ctx, tx, "account_id = ?", accountID)
}

// lock keeps everybody else from changing the account and from beginning a session of it, or returns sql.ErrNoRows.
func (s *Store) lock(ctx context.Context, tx bun.Tx, accountID string) error {
	q := tx.NewSelect().Model((*Account)(nil)).Column("id").Where("id = ?", accountID).Where("deleted_at IS NULL")
	return s.DB.ForUpdate(q).Scan(ctx, &accountID)
}

// proved notes that the account's address is its owner's, and another password if there is one. It returns
// sql.ErrNoRows when the account has been deleted.
func (s *Store) proved(ctx context.Context, tx bun.Tx, accountID string, hash *string) (*Account, error) {
	var a Account
	now := s.now()
	_, err := tx.NewUpdate().Model(&a).Set("email_verified_at = COALESCE(email_verified_at, ?)", now).Set("updated_at = ?", now).
		Set("password_hash = COALESCE(?, password_hash)", hash).
		Where("id = ?", accountID).Where("deleted_at IS NULL").Returning("*").Exec(ctx)
	if err == nil && a.ID == "" {
		err = sql.ErrNoRows
	}
	return &a, err
}

// newMailed keeps a token, if there is such an account.
func (s *Store) newMailed(ctx context.Context, conn bun.IDB, accountID string, p purpose) (mailed, error) {
	m := mailed{purpose: p, token: mailedPrefix + rand.Text(), expires: s.now().Add(p.life)}
	_, err := conn.NewRaw("INSERT INTO mailed_tokens (hash, account_id, purpose, expires_at)"+
		" SELECT ?, id, ?, ? FROM accounts WHERE id = ? AND deleted_at IS NULL", HashSecret(m.token), p.name, m.expires, accountID).Exec(ctx)
	return m, err
}

// take uses a token up. It returns sql.ErrNoRows for one that is not good, or no longer.
func (s *Store) take(ctx context.Context, tx bun.Tx, p purpose, token string) (accountID string, err error) {
	_, err = tx.NewDelete().Model((*mailedToken)(nil)).Where("hash = ?", HashSecret(token)).Where("purpose = ?", p.name).
		Where("expires_at > ?", s.now()).Returning("account_id").Exec(ctx, &accountID)
	return accountID, err
}

// mailedTo is the account that a good token was mailed to. It returns BadCredentials.
func (s *Store) mailedTo(ctx context.Context, p purpose, token string) (*Account, error) {
	var a Account
	err := s.DB.NewSelect().Model(&a).Join("JOIN mailed_tokens AS mailed ON mailed.account_id = account.id").
		Where("mailed.hash = ?", HashSecret(token)).Where("mailed.purpose = ?", p.name).Where("mailed.expires_at > ?", s.now()).
		Where("account.deleted_at IS NULL").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errMailed()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a mailed token: %w", err)
	}
	return &a, nil
}

func dropMailed(ctx context.Context, tx bun.Tx, accountID string, p purpose) error {
	_, err := tx.NewDelete().Model((*mailedToken)(nil)).Where("account_id = ?", accountID).Where("purpose = ?", p.name).Exec(ctx)
	return err
}

// sendsMail says whether there is a mail server.
func (s *Store) sendsMail() bool { return s.Mail != nil && s.Mail.Configured() }

// mail sends the token to the account's address. There is no page of ours to enter it: it is for a program's.
func (s *Store) mail(ctx context.Context, a *Account, m mailed) {
	if s.Mail == nil {
		return
	}
	s.Mail.Send(ctx, a.Email, m.purpose.subject, fmt.Sprintf(
		m.purpose.reason+", call the mutation %s with this token:\n\n%s\n\nIt is good once, until %s. If you do not know what this is about, do nothing.\n",
		s.PublicURL, m.purpose.mutation, m.token, m.expires.Format("2006-01-02 15:04 MST")))
}

func errMailed() error {
	return errs.New(errs.BadCredentials, "This token is not good, or no longer. Ask for another one.").At("token")
}
