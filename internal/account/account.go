// Package account holds the people who use Linkforge: who they are, how they prove it, and the tokens that
// stand for them afterwards.
package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/validate"
)

// The short-term limits. Log-ins that succeed are not held against anyone. An address that goes on waits longer; an account
// does not, or whoever knows its address could keep it shut.
var (
	loginsPerAccount    = ratelimit.Rate{Name: "login-account", Attempts: 10, Window: 15 * time.Minute}
	loginsPerAddress    = ratelimit.Rate{Name: "login-address", Attempts: 100, Window: 15 * time.Minute, Longest: time.Hour}
	registersPerAddress = ratelimit.Rate{Name: "register-address", Attempts: 200, Window: time.Hour}
)

// Account is a person who logs in.
type Account struct {
	bun.BaseModel `bun:"table:accounts"`

	ID           string `bun:",pk"`
	Email        string // in lower case
	Name         string
	PasswordHash string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// EmailVerifiedAt is when it was proved that the address is the person's; nil until then.
	EmailVerifiedAt *time.Time
	// DeletedAt is when the person left. Nothing of them is kept since but the id.
	DeletedAt *time.Time
}

// EmailVerified says whether it was proved that the address is the person's.
func (a *Account) EmailVerified() bool { return a.EmailVerifiedAt != nil }

// Origin is where a request comes from.
type Origin struct {
	// Address is for the rate limits, and kept nowhere.
	Address string
	// Agent is the program that asks, as it calls itself.
	Agent string
}

// Mailer sends mail. Whoever gives it a letter does not wait until it is sent.
type Mailer interface {
	// Send takes a letter in plain text.
	Send(ctx context.Context, to, subject, text string)
	// Configured says whether there is a mail server.
	Configured() bool
}

// Store keeps the accounts.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Tokens signs what a log-in answers.
	Tokens Tokens
	// Passwords hashes and compares.
	Passwords *Passwords
	// Keys knows the API keys.
	Keys Keys
	// SessionTTL is how long a session lives that is not used.
	SessionTTL time.Duration
	// Limits slows down guessing.
	Limits ratelimit.Limiter
	// Mail sends tokens; nil sends nothing.
	Mail Mailer
	// PublicURL is where people reach this instance, as letters call it.
	PublicURL string
	// Log is told when revoked sessions are not learnt of.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	revoked revoked
	known   known
	reads   batcher.Batcher[struct{}, []string, map[string]*Account]
}

// Register makes an account, logs it in, and mails what proves the address where mail is sent. It returns InvalidInput, EmailTaken or RateLimited.
func (s *Store) Register(ctx context.Context, email, password, name string, from Origin) (Login, error) {
	a, err := s.newAccount(email, name)
	if err != nil {
		return Login{}, err
	}
	if err := checkPassword(password, a.Email); err != nil {
		return Login{}, err
	}
	if err := s.Limits.Charge(ctx, registersPerAddress, from.Address); err != nil {
		return Login{}, err
	}
	if a.PasswordHash, err = s.Passwords.hash(ctx, password); err != nil {
		return Login{}, err
	}
	verification, err := s.keep(ctx, a)
	if errors.Is(err, sql.ErrNoRows) {
		return Login{}, errs.New(errs.EmailTaken, "There is an account with this e-mail address already. Log in instead.").At("email")
	}
	if err != nil {
		return Login{}, fmt.Errorf("keeping a new account: %w", err)
	}
	if s.sendsMail() {
		s.mail(ctx, a, verification)
	}
	return s.begin(ctx, a, from.Agent)
}

// keep keeps a new account, with what proves its address where mail is sent.
func (s *Store) keep(ctx context.Context, a *Account) (verification mailed, err error) {
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		_, err = tx.NewInsert().Model(a).On("CONFLICT (email) DO NOTHING").Returning("id").Exec(ctx, &a.ID)
		if err == nil && s.sendsMail() {
			verification, err = s.newMailed(ctx, tx, a.ID, verifyEmail)
		}
		return err
	})
	return verification, err
}

// Login proves who somebody is. Unknown accounts and wrong passwords get the same answer in the same time. It
// returns BadCredentials or RateLimited.
func (s *Store) Login(ctx context.Context, email, password string, from Origin) (Login, error) {
	email = fold(email)
	a, err := s.byEmail(ctx, email)
	if err != nil {
		return Login{}, err
	}
	if err := s.prove(ctx, a, email, password, from.Address); err != nil {
		return Login{}, err
	}
	return s.begin(ctx, a, from.Agent)
}

// prove compares the password with the account's, which is empty when there is none of the address.
func (s *Store) prove(ctx context.Context, a *Account, email, password, address string) error {
	if err := s.Limits.Charge(ctx, loginsPerAccount, email); err != nil {
		return err
	}
	if err := s.Limits.Charge(ctx, loginsPerAddress, address); err != nil {
		return err
	}
	good, err := s.Passwords.matches(ctx, a.PasswordHash, password)
	if good || err != nil { // an attempt that was not looked at tells a guesser nothing
		s.Limits.Pardon(context.WithoutCancel(ctx), loginsPerAddress, address)
		s.Limits.Pardon(context.WithoutCancel(ctx), loginsPerAccount, email)
	}
	if err != nil {
		return err
	}
	if !good {
		return errBadLogin()
	}
	return nil
}

func errBadLogin() error {
	return errs.New(errs.BadCredentials, "The e-mail address or the password is wrong.")
}

// Get loads accounts by their ids; unknown and deleted ones are missing from the answer.
func (s *Store) Get(ctx context.Context, ids ...string) (map[string]*Account, error) {
	var rows []*Account
	err := s.DB.NewSelect().Model(&rows).Where("id IN (?)", bun.In(ids)).Where("deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading accounts: %w", err)
	}
	found := make(map[string]*Account, len(rows))
	for _, a := range rows {
		found[a.ID] = a
	}
	return found, nil
}

// Emails is the actor's address, and whether it was proved to be theirs. It returns Unauthenticated.
func (s *Store) Emails(ctx context.Context, a Actor) (email string, verified bool, err error) {
	account, err := s.of(ctx, a)
	if err != nil {
		return "", false, err
	}
	return account.Email, account.EmailVerified(), nil
}

// of is the actor's account. It returns Unauthenticated when it has been deleted.
func (s *Store) of(ctx context.Context, a Actor) (*Account, error) {
	found, err := s.Get(ctx, a.AccountID)
	if err != nil {
		return nil, err
	}
	account := found[a.AccountID]
	if account == nil {
		return nil, errNoAccount()
	}
	return account, nil
}

func errNoAccount() error {
	return errs.New(errs.Unauthenticated, "There is no such account any more.")
}

func (s *Store) newAccount(email, name string) (*Account, error) {
	email, err := CheckEmail(email)
	if err != nil {
		return nil, err
	}
	name, err = validate.Line("The name", name, 1, 100)
	if err != nil {
		return nil, errs.From(err).At("name")
	}
	now := s.now()
	return &Account{ID: id.New(id.Account), Email: email, Name: name, CreatedAt: now, UpdatedAt: now}, nil
}

// byEmail answers with an empty account when there is none, so that log-in goes on as if there were one.
func (s *Store) byEmail(ctx context.Context, email string) (*Account, error) {
	if _, err := CheckEmail(email); err != nil {
		return &Account{}, nil
	}
	var rows []*Account
	if err := s.DB.NewSelect().Model(&rows).Where("email = ?", email).Where("deleted_at IS NULL").Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for an account: %w", err)
	}
	if len(rows) == 0 {
		return &Account{}, nil
	}
	return rows[0], nil
}
