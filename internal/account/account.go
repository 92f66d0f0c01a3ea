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

// Origin is where a request comes from.
type Origin struct {
	// Address is for the rate limits, and kept nowhere.
	Address string
	// Agent is the program that asks, as it calls itself.
	Agent string
}

// Store keeps the accounts.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Tokens signs what a log-in answers.
	Tokens Tokens
	// Passwords hashes and compares.
	Passwords *Passwords
	// SessionTTL is how long a session lives that is not used.
	SessionTTL time.Duration
	// Limits slows down guessing.
	Limits quota.Limiter
	// Log is told when revoked sessions are not learnt of.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	revoked revoked
}

// Register makes an account and logs it in. It returns InvalidInput, EmailTaken or RateLimited.
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
	_, err = s.DB.NewInsert().Model(a).On("CONFLICT (email) DO NOTHING").Returning("id").Exec(ctx, &a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return Login{}, errs.New(errs.EmailTaken, "There is an account with this e-mail address already. Log in instead.").At("email")
	}
	if err != nil {
		return Login{}, fmt.Errorf("keeping a new account: %w", err)
	}
	return s.begin(ctx, a, from.Agent)
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
		return errs.New(errs.BadCredentials, "The e-mail address or the password is wrong.")
	}
	return nil
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
	now := s.now()
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
