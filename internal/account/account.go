// Package account holds the people who use Linkforge: who they are, how they prove it, and the tokens that
// stand for them afterwards.
package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/text"
)

// The short-term limits. Log-ins that succeed are not held against anyone.
var (
	loginsPerAccount    = quota.Rate{Name: "login-account", Attempts: 10, Window: 15 * time.Minute}
	loginsPerAddress    = quota.Rate{Name: "login-address", Attempts: 100, Window: 15 * time.Minute}
	registersPerAddress = quota.Rate{Name: "register-address", Attempts: 200, Window: time.Hour}
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
}

// Session is a log-in: the account and the token that stands for it.
type Session struct {
	Account   *Account
	Token     string
	ExpiresAt time.Time
}

// Store keeps the accounts.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Tokens signs what a log-in answers.
	Tokens Tokens
	// Passwords hashes and compares.
	Passwords *Passwords
	// Limits slows down guessing.
	Limits quota.Limiter
	// Now is the clock.
	Now func() time.Time
}

// Register makes an account and logs it in. The address is where the request came from, for the rate limit. It
// returns InvalidInput, EmailTaken or RateLimited.
func (s *Store) Register(ctx context.Context, email, password, name, address string) (Session, error) {
	a, err := s.newAccount(email, name)
	if err != nil {
		return Session{}, err
	}
	if err := checkPassword(password, a.Email); err != nil {
		return Session{}, err
	}
	if err := s.Limits.Charge(ctx, registersPerAddress, address); err != nil {
		return Session{}, err
	}
	if a.PasswordHash, err = s.Passwords.hash(ctx, password); err != nil {
		return Session{}, err
	}
	_, err = s.DB.NewInsert().Model(a).On("CONFLICT (email) DO NOTHING").Returning("id").Exec(ctx, &a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, errs.New(errs.EmailTaken, "There is an account with this e-mail address already. Log in instead.").At("email")
	}
	if err != nil {
		return Session{}, fmt.Errorf("keeping a new account: %w", err)
	}
	return s.session(a)
}

// Login proves who somebody is. Unknown accounts and wrong passwords get the same answer in the same time. It
// returns BadCredentials or RateLimited.
func (s *Store) Login(ctx context.Context, email, password, address string) (Session, error) {
	email = fold(email)
	if err := s.Limits.Charge(ctx, loginsPerAccount, email); err != nil {
		return Session{}, err
	}
	if err := s.Limits.Charge(ctx, loginsPerAddress, address); err != nil {
		return Session{}, err
	}
	a, err := s.byEmail(ctx, email)
	if err != nil {
		return Session{}, err
	}
	good, err := s.Passwords.matches(ctx, a.PasswordHash, password)
	if good || err != nil { // an attempt that was not looked at tells a guesser nothing
		s.Limits.Pardon(context.WithoutCancel(ctx), loginsPerAddress, address)
		s.Limits.Pardon(context.WithoutCancel(ctx), loginsPerAccount, email)
	}
	if err != nil {
		return Session{}, err
	}
	if !good {
		return Session{}, errs.New(errs.BadCredentials, "The e-mail address or the password is wrong.")
	}
	return s.session(a)
}

// Get loads accounts by their ids; unknown ones are missing from the answer.
func (s *Store) Get(ctx context.Context, ids ...string) (map[string]*Account, error) {
	var rows []*Account
	if err := s.DB.NewSelect().Model(&rows).Where("id IN (?)", bun.In(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("loading accounts: %w", err)
	}
	found := make(map[string]*Account, len(rows))
	for _, a := range rows {
		found[a.ID] = a
	}
	return found, nil
}

func (s *Store) newAccount(email, name string) (*Account, error) {
	email, err := checkEmail(email)
	if err != nil {
		return nil, err
	}
	name, err = text.Line("The name", name, 1, 100)
	if err != nil {
		return nil, errs.From(err).At("name")
	}
	now := db.Instant(s.Now())
	return &Account{ID: id.New(id.Account), Email: email, Name: name, CreatedAt: now, UpdatedAt: now}, nil
}

// byEmail answers with an empty account when there is none, so that log-in goes on as if there were one.
func (s *Store) byEmail(ctx context.Context, email string) (*Account, error) {
	if _, err := checkEmail(email); err != nil {
		return &Account{}, nil
	}
	var rows []*Account
	if err := s.DB.NewSelect().Model(&rows).Where("email = ?", email).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for an account: %w", err)
	}
	if len(rows) == 0 {
		return &Account{}, nil
	}
	return rows[0], nil
}

func (s *Store) session(a *Account) (Session, error) {
	token, expires, err := s.Tokens.Issue(a.ID, s.Now())
	if err != nil {
		return Session{}, err
	}
	return Session{Account: a, Token: token, ExpiresAt: expires}, nil
}
