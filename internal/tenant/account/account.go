// Package account owns the users: registration, passwords, proofs of identity, sessions and their
// tokens, mailed tokens, and the actor of a request. It does not know workspaces or permissions.
package account

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// registersPerAddress bounds new accounts.
var registersPerAddress = ratelimit.Rate{Name: "register-address", Attempts: 200, Window: time.Hour}

// Registration is who may register.
type Registration string

// The registrations. The operator creates accounts with each of them.
const (
	Open    Registration = "OPEN"    // all callers
	Invited Registration = "INVITED" // callers with the token of an invitation
	Closed  Registration = "CLOSED"
)

// Account is a user.
type Account struct {
	bun.BaseModel `bun:"table:accounts"`

	ID           string `bun:",pk"`
	Email        string // in lower case
	Name         string
	PasswordHash string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// EmailVerifiedAt is when the user proved that they receive mail at Email; nil until then.
	EmailVerifiedAt *time.Time
	// DisabledAt is when the operator disabled the account; nil if it is enabled.
	DisabledAt *time.Time
	// DeletedAt is when the account was deleted. Since then the row holds only the ID.
	DeletedAt *time.Time
	// HasTOTP reports an enrolled authenticator app, in accounts that Get returns.
	HasTOTP bool `bun:"has_totp,scanonly"`
}

func (*Account) IsEntity() {} // an entity of Apollo Federation

// EmailVerified reports whether the user proved that they receive mail at Email.
func (a *Account) EmailVerified() bool { return a.EmailVerifiedAt != nil }

// Client describes the client of a request.
type Client struct {
	// Address is the IP address, used for rate limits only.
	Address string
	// Agent is the User-Agent header.
	Agent string
}

// Mailer sends mail without blocking the caller.
type Mailer interface {
	// Send queues a plain text message.
	Send(ctx context.Context, to, subject, text string)
	// Configured reports whether there is a mail server.
	Configured() bool
}

// Passwords is the part of UserPasswords that the store calls.
type Passwords interface {
	Hash(ctx context.Context, password, subject string) (string, error)
	HashNew(ctx context.Context, password, network string) (string, error)
	Matches(ctx context.Context, hash, password, subject string) (bool, error)
}

// Store stores accounts, sessions and mailed tokens. It is safe for concurrent use.
type Store struct {
	DB        *db.DB
	Tokens    Tokens
	Passwords Passwords
	Keys      Keys
	// SessionTTL is the lifetime of a session that is not refreshed.
	SessionTTL time.Duration
	// Sealed encrypts the secrets of authenticator apps.
	Sealed secrets.Box
	// SSO is nil without an identity provider.
	SSO *SSO
	// PasswordsOff turns off registration and log-ins with passwords. Accounts with the addresses
	// of BreakGlass can still log in, and need a second factor.
	PasswordsOff bool
	BreakGlass   []string
	// Registration is who may Register; empty means Open.
	Registration Registration
	Limits       ratelimit.Limiter
	// Mail is optional.
	Mail Mailer
	// PublicURL names this instance in mail.
	PublicURL string
	Log       *slog.Logger
	Now       func() time.Time

	revoked    revoked
	tokenCache tokenCache
	reads      batcher.Batcher[struct{}, []string, map[string]*Account]
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Invitation makes a new account a member of a workspace.
type Invitation interface {
	// Check returns NotFound, Expired or Forbidden unless an account with the address can accept
	// the invitation.
	Check(ctx context.Context, email string) error
	// Accept accepts it, in the transaction that has created the account. It returns the errors of
	// Check.
	Accept(ctx context.Context, tx bun.Tx, a *Account) error
}

// Register creates an account, logs it in and, if mail is sent, mails a token that verifies the
// address. The account accepts the invitation, which may be nil if the registration is open.
// Whether an address has an account is compared last, so that only callers who may register it
// learn this. Register returns InvalidInput, Forbidden, EmailTaken, RateLimited and the errors of
// the invitation.
func (s *Store) Register(
	ctx context.Context, email, password, name string, from Client, invitation Invitation,
) (Login, error) {
	if err := s.mayRegister(invitation); err != nil {
		return Login{}, err
	}
	a, err := s.newAccount(email, name)
	if err := errs.All(err, CheckPassword(password, a.Email)); err != nil {
		return Login{}, err
	}
	if err := s.Limits.SpendFrom(ctx, registersPerAddress, 1, from.Address); err != nil {
		return Login{}, err
	}
	scope := ctx
	if invitation != nil {
		if err := invitation.Check(ctx, a.Email); err != nil {
			return Login{}, atInvitation(err)
		}
		scope = db.AsSystem(ctx) // the account is not a member yet
	}
	if a.PasswordHash, err = s.Passwords.HashNew(ctx, password, web.Holder(from.Address)); err != nil {
		return Login{}, err
	}
	var verification mailed
	err = s.DB.Tx(scope, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := insert(ctx, tx, a); err != nil {
			return err
		}
		if s.sendsMail() {
			if verification, err = s.newMailed(ctx, tx, a.ID, "", verifyEmail); err != nil {
				return err
			}
		}
		if invitation != nil {
			err = atInvitation(invitation.Accept(ctx, tx, a))
		}
		return err
	})
	if err != nil {
		taken := errs.New(errs.EmailTaken, "There is an account with this e-mail address already. Log in instead.")
		return Login{}, db.NoRowsAs(taken.At("email"), err, "storing a new account")
	}
	if s.sendsMail() {
		s.mail(ctx, a.Email, verification)
	}
	return s.beginSession(ctx, pendingLogin{account: a, Methods: Methods(Password)}, from)
}

// mayRegister returns Forbidden unless the registration is open to the caller.
func (s *Store) mayRegister(invitation Invitation) error {
	switch {
	case s.PasswordsOff:
		return errs.New(errs.Forbidden, "Registration with a password is off on this server. Log in with %s.",
			s.SSO.Name)
	case s.Registration == Closed:
		return errs.New(errs.Forbidden, "Registration is closed on this server. Ask its operator for an account.")
	case s.Registration == Invited && invitation == nil:
		return errs.New(errs.Forbidden, "Registration on this server requires an invitation: send its token as "+
			"invitationToken. Members of a workspace invite, and the operator creates accounts.")
	}
	return nil
}

func atInvitation(err error) error {
	if e := errs.From(err); err != nil && e.Kind.IsUserError() {
		return e.At("invitationToken")
	}
	return err
}

// insert inserts a new account. It returns sql.ErrNoRows if another one has the address.
func insert(ctx context.Context, tx bun.Tx, a *Account) error {
	_, err := tx.NewInsert().Model(a).On("CONFLICT (email) DO NOTHING").Returning("id").Exec(ctx, &a.ID)
	return err
}

func (s *Store) newAccount(email, name string) (*Account, error) {
	email, emailErr := CheckEmail(email)
	name, nameErr := validate.Line("The name", name, 1, 100)
	now := s.now()
	return &Account{ID: id.New(id.Account), Email: email, Name: name, CreatedAt: now, UpdatedAt: now},
		errs.All(emailErr, errs.At(nameErr, "name"))
}

// Login authenticates a user and starts a session, or a challenge for the second factor of an
// account that has one. Unknown accounts, disabled accounts and wrong passwords get the same error
// in the same time. Where log-ins with passwords are off, the password is not compared. It returns
// BadCredentials, Forbidden or RateLimited.
func (s *Store) Login(ctx context.Context, email, password string, from Client) (Login, error) {
	email = fold(email)
	a, err := s.byEmail(ctx, email)
	if err != nil {
		return Login{}, err
	}
	if err := s.mayUsePassword(ctx, a); err != nil { // before the comparison, which the answer would reveal
		return Login{}, err
	}
	if err := s.checkPassword(ctx, a, password, attempt{email: email, address: from.Address}); err != nil {
		return Login{}, err
	}
	return s.proceed(ctx, pendingLogin{account: a, Methods: Methods(Password)}, from)
}

// mayUsePassword returns Forbidden where log-ins with passwords are off, except for an account that
// breaks glass.
func (s *Store) mayUsePassword(ctx context.Context, a *Account) error {
	if !s.PasswordsOff {
		return nil
	}
	has, err := s.hasFactor(ctx, s.DB, a.ID)
	if err == nil && !(has && slices.Contains(s.BreakGlass, a.Email)) {
		err = errs.New(errs.Forbidden, "Log-ins with a password are off on this server. Log in with %s.", s.SSO.Name)
	}
	return err
}

// admits reports whether proofs suffice for a session of the account where log-ins with passwords
// are off: those of the provider or, to break glass, with a second factor.
func (s *Store) admits(a *Account, proofs Methods) bool {
	return !s.PasswordsOff || proofs.has(Provider) ||
		slices.Contains(s.BreakGlass, a.Email) && proofs.has(TOTP, RecoveryCode)
}

// Get loads accounts by ID. Unknown and deleted ones are missing from the result.
func (s *Store) Get(ctx context.Context, ids ...string) (map[string]*Account, error) {
	var rows []*Account
	err := s.DB.NewSelect().Model(&rows).ColumnExpr("account.*").
		ColumnExpr("EXISTS (SELECT 1 FROM totp WHERE account_id = account.id AND enrolled_at IS NOT NULL) AS has_totp").
		Where("id IN (?)", bun.In(ids)).Where("deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading accounts: %w", err)
	}
	found := make(map[string]*Account, len(rows))
	for _, a := range rows {
		found[a.ID] = a
	}
	return found, nil
}

// Load is Get for frequent reads: concurrent calls share a statement. The accounts are shared too
// and must not be changed. The statement runs without a scope.
func (s *Store) Load(ctx context.Context, ids ...string) (map[string]*Account, error) {
	all, err := s.reads.Do(ctx, struct{}{}, ids,
		func(ctx context.Context, calls [][]string) (map[string]*Account, error) {
			ids := slices.Concat(calls...)
			slices.Sort(ids)
			return s.Get(admission.Unowned(db.UpToDate(ctx)), slices.Compact(ids)...)
		})
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Account, len(ids))
	for _, accountID := range ids {
		if a := all[accountID]; a != nil {
			found[accountID] = a
		}
	}
	return found, nil
}

// Emails returns the actor's address and whether it is verified. It returns Unauthenticated.
func (s *Store) Emails(ctx context.Context, a Actor) (email string, verified bool, err error) {
	account, err := s.Enabled(ctx, a.AccountID)
	if err != nil {
		return "", false, err
	}
	return account.Email, account.EmailVerified(), nil
}

// Enabled returns an account, or Unauthenticated if it was deleted or disabled.
func (s *Store) Enabled(ctx context.Context, accountID string) (*Account, error) {
	found, err := s.Get(ctx, accountID)
	if err != nil {
		return nil, err
	}
	account := found[accountID]
	if account == nil || account.DisabledAt != nil {
		return nil, errNoAccount()
	}
	return account, nil
}

func errNoAccount() error {
	return errs.New(errs.Unauthenticated, "This account no longer exists.")
}

// byEmail returns an empty account for an unknown address or a disabled account, so that Login
// takes the same path.
func (s *Store) byEmail(ctx context.Context, email string) (*Account, error) {
	a, err := s.find(ctx, email)
	if err == nil && a.DisabledAt != nil {
		a = &Account{}
	}
	return a, err
}

// find returns the account with the address, or an empty one.
func (s *Store) find(ctx context.Context, email string) (*Account, error) {
	a := &Account{}
	if _, err := CheckEmail(email); err != nil {
		return a, nil
	}
	err := s.DB.NewSelect().Model(a).Where("email = ?", email).Where("deleted_at IS NULL").Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("looking up an account: %w", err)
	}
	return a, nil
}

// lock locks an account's row, which new sessions of it wait for. It returns sql.ErrNoRows.
func (s *Store) lock(ctx context.Context, tx bun.Tx, accountID string) error {
	q := tx.NewSelect().Model((*Account)(nil)).Column("id").Where("id = ?", accountID).Where("deleted_at IS NULL")
	return s.DB.ForUpdate(q).Scan(ctx, &accountID)
}

// lockFor is lock for a change by the actor, whose session may have ended since the request was
// authenticated. It returns sql.ErrNoRows or Unauthenticated.
func (s *Store) lockFor(ctx context.Context, tx bun.Tx, a Actor) error {
	if err := s.lock(ctx, tx, a.AccountID); err != nil {
		return err
	}
	isActive, err := s.active(a.AccountID).Conn(tx).Where("id = ?", a.SessionID).Exists(ctx)
	if err == nil && !isActive && a.SessionID != "" { // it is empty for the operator
		err = errEnded()
	}
	return err
}

// isUnchanged reports whether the account is enabled and has the password that it had when it was
// loaded. The caller has locked the account, or waited for transactions that have.
func (s *Store) isUnchanged(ctx context.Context, tx bun.Tx, a *Account) (bool, error) {
	return tx.NewSelect().Model((*Account)(nil)).Where("id = ?", a.ID).Where("password_hash = ?", a.PasswordHash).
		Where("deleted_at IS NULL").Where("disabled_at IS NULL").Exists(ctx)
}

// HashSecret returns the stored form of a random secret: it has enough entropy to need no salt.
func HashSecret(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

// updateAccount sets columns of an account. It returns sql.ErrNoRows if it was deleted.
func (s *Store) updateAccount(ctx context.Context, tx bun.Tx, accountID, set string, args ...any) (*Account, error) {
	var a Account
	_, err := tx.NewUpdate().Model(&a).Set(set, args...).Set("updated_at = ?", s.now()).
		Where("id = ?", accountID).Where("deleted_at IS NULL").Returning("*").Exec(ctx, &a)
	return &a, err
}
