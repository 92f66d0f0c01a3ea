package account

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/sso"
)

const (
	// transactionPrefix identifies the secrets of logins at the provider to users and secret
	// scanners.
	transactionPrefix = "sso_"
	transactionTTL    = 10 * time.Minute
)

// The limits of the logins at the provider that an address starts and finishes.
var (
	startsPerAddress   = ratelimit.Rate{Name: "sso-start-address", Attempts: 200, Window: 15 * time.Minute}
	finishesPerAddress = ratelimit.Rate{Name: "sso-finish-address", Attempts: 200, Window: 15 * time.Minute}
)

// SSO is the identity provider of the instance, and what its logins may do.
type SSO struct {
	*sso.Provider

	// Name is what pages call it.
	Name string
	// Registers means that logins create accounts. IsInvited reports whether an address has an
	// invitation, which is enough otherwise.
	Registers bool
	IsInvited func(ctx context.Context, email string) (bool, error)
	// TrustsFactors means that a login counts as one with a second factor.
	TrustsFactors bool
	// SessionTTL bounds a session, although it is refreshed.
	SessionTTL time.Duration
	// SyncGroups gives an account the memberships of its groups, in the transaction of a login,
	// which sees all workspaces.
	SyncGroups func(ctx context.Context, tx bun.Tx, accountID string, groups []string) error
}

// Transaction is a login at the provider that has begun. The Secret finishes it, and must not be in
// a URL.
type Transaction struct {
	AuthorizationURL, Secret string
	ExpiresAt                time.Time
}

// Identity is an account's identity at a provider.
type Identity struct {
	bun.BaseModel `bun:"table:sso_identities" json:"-"`

	Issuer    string    `bun:",pk" json:"issuer"`
	Subject   string    `bun:",pk" json:"subject"`
	AccountID string    `json:"-"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt"`
}

// StartSSO starts a login at the provider, which redirects the browser to the URI. It returns
// NotFound without a provider, InvalidInput, RateLimited or Unavailable.
func (s *Store) StartSSO(ctx context.Context, redirectURI string, from Client) (Transaction, error) {
	if s.SSO == nil {
		return Transaction{}, errNoProvider()
	}
	if err := s.Limits.SpendFrom(ctx, startsPerAddress, 1, from.Address); err != nil {
		return Transaction{}, err
	}
	t := Transaction{Secret: transactionPrefix + rand.Text(), ExpiresAt: s.now().Add(transactionTTL)}
	var err error
	if t.AuthorizationURL, err = s.SSO.AuthorizationURL(ctx, t.Secret, redirectURI); err != nil {
		return Transaction{}, err
	}
	f := &flow{Hash: HashSecret(t.Secret), Kind: kindSSO, Data: redirectURI, ExpiresAt: t.ExpiresAt}
	if _, err := s.DB.NewInsert().Model(f).Exec(ctx); err != nil {
		return Transaction{}, fmt.Errorf("storing a login at the provider: %w", err)
	}
	return t, nil
}

// FinishSSO logs in by the response of the provider to the transaction of a secret. An identity
// that is linked to an account logs it in. Another one with the address of an account gets a
// challenge for its password, which links it. Any other creates an account, if logins may, and takes
// its address from an account that has not verified it. It returns NotFound without a provider,
// BadCredentials, Forbidden, RateLimited or Unavailable.
func (s *Store) FinishSSO(ctx context.Context, r sso.Response, from Client) (Login, error) {
	if s.SSO == nil {
		return Login{}, errNoProvider()
	}
	if err := s.Limits.SpendFrom(ctx, finishesPerAddress, 1, from.Address); err != nil {
		return Login{}, err
	}
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		f, err := s.consume(ctx, tx, HashSecret(r.Secret), kindSSO)
		r.RedirectURI = f.Data
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Login{}, s.SSO.Refuse(ctx, "transaction")
	}
	if err != nil {
		return Login{}, fmt.Errorf("consuming a login at the provider: %w", err)
	}
	who, err := s.SSO.Identify(ctx, r)
	if err != nil {
		return Login{}, err
	}
	pending := pendingLogin{Methods: Methods(Provider), EndsAt: new(s.now().Add(s.SSO.SessionTTL)), Groups: who.Groups}
	now := s.now()
	identity := &Identity{Issuer: who.Issuer, Subject: who.Subject, CreatedAt: now, UsedAt: now}
	if pending.account, err = s.identified(ctx, identity); err != nil {
		return Login{}, err
	}
	if pending.account != nil {
		return s.proceed(ctx, pending, from)
	}
	if pending.account, err = s.find(ctx, who.Email); err != nil {
		return Login{}, err
	}
	mayCreate, err := s.mayCreate(ctx, who.Email)
	if err != nil {
		return Login{}, err
	}
	switch known := pending.account; {
	case known.DisabledAt != nil:
		err = s.SSO.Refuse(ctx, "account")
	case known.ID == "" && !mayCreate:
		err = errs.New(errs.Forbidden,
			"You have no account on this server. Ask its operator, or a member of a workspace for an invitation.")
	case known.ID == "", mayCreate && s.lacksProof(known):
		pending.account, err = s.createLinked(ctx, who, identity)
	default:
		pending.Identity = identity
	}
	if err != nil {
		return Login{}, err
	}
	return s.proceed(ctx, pending, from)
}

// mayCreate reports whether a login at the provider may create an account with an address.
func (s *Store) mayCreate(ctx context.Context, email string) (bool, error) {
	if s.SSO.Registers {
		return true, nil
	}
	return s.SSO.IsInvited(ctx, email)
}

// lacksProof reports whether the user of an account could have proved its address and has not. Where
// no mail is sent, nobody can.
func (s *Store) lacksProof(a *Account) bool { return s.sendsMail() && !a.EmailVerified() }

func errNoProvider() error { return errs.New(errs.NotFound, "This server has no identity provider.") }

// identified returns the account of an identity, and records its use; nil for an unknown one. It
// returns BadCredentials for a disabled account.
func (s *Store) identified(ctx context.Context, i *Identity) (*Account, error) {
	_, err := s.DB.NewUpdate().Model(i).Set("used_at = ?", i.UsedAt).WherePK().Returning("account_id").Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up an identity: %w", err)
	}
	if i.AccountID == "" {
		return nil, nil
	}
	a, err := s.Enabled(ctx, i.AccountID)
	if errs.Is(err, errs.Unauthenticated) {
		err = s.SSO.Refuse(ctx, "account")
	}
	return a, err
}

// createLinked creates the account of an identity, without a password. It returns BadCredentials if
// another login has created one, or an account has verified the address, meanwhile.
func (s *Store) createLinked(ctx context.Context, who sso.User, identity *Identity) (*Account, error) {
	name, err := validate.Line("The name", who.Name, 1, 100)
	if err != nil {
		local, _, _ := strings.Cut(who.Email, "@")
		runes := []rune(local)
		name = string(runes[:min(100, len(runes))])
	}
	a, err := s.newAccount(who.Email, name)
	if err != nil {
		return nil, err
	}
	a.EmailVerifiedAt = &a.CreatedAt
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.releaseEmail(ctx, tx, a.Email); err != nil {
			return err
		}
		if err := insert(ctx, tx, a); err != nil {
			return err
		}
		identity.AccountID = a.ID
		return insertIdentity(ctx, tx, identity)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.SSO.Refuse(ctx, "concurrent_account")
	}
	if err != nil {
		return nil, fmt.Errorf("creating an account: %w", err)
	}
	return a, nil
}

// releaseEmail takes an address from the account that has it and has not verified it, and ends what
// was mailed to it. The account gets one that receives no mail, with which it still logs in, and can
// set another.
func (s *Store) releaseEmail(ctx context.Context, tx bun.Tx, email string) error {
	if !s.sendsMail() {
		return nil
	}
	var a Account
	_, err := tx.NewUpdate().Model(&a).Set("email = id || ?", lostDomain).Set("updated_at = ?", s.now()).
		Where("email = ?", email).Where("email_verified_at IS NULL").Where("disabled_at IS NULL").
		Where("deleted_at IS NULL").Returning("*").Exec(ctx, &a)
	if errors.Is(err, sql.ErrNoRows) || err == nil && a.ID == "" {
		return nil
	}
	if err != nil {
		return err
	}
	s.Log.WarnContext(ctx, "account lost its unverified address to a verified identity", "account", a.ID)
	return dropFlows(ctx, tx, a.ID, kindVerifyEmail, kindChangeEmail, kindResetPassword)
}

// lostDomain is the domain of accounts that have lost their address (RFC 2606, section 2).
const lostDomain = "@address-lost.invalid"

// receivesMail reports whether mail to an account can arrive.
func receivesMail(email string) bool { return !strings.HasSuffix(email, lostDomain) }

// connectIdentity links the identity of a login to its account. It returns BadCredentials if it is
// linked to one meanwhile.
func connectIdentity(ctx context.Context, tx bun.Tx, pending pendingLogin) error {
	if pending.Identity == nil {
		return nil
	}
	pending.Identity.AccountID = pending.account.ID
	if err := insertIdentity(ctx, tx, pending.Identity); err != nil {
		return db.NoRowsAs(errBadLogin(), err, "linking an identity")
	}
	return nil
}

// insertIdentity links an identity to an account. It returns sql.ErrNoRows if it is linked to one.
func insertIdentity(ctx context.Context, tx bun.Tx, i *Identity) error {
	n, err := db.Affected(tx.NewInsert().Model(i).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	if err == nil && n == 0 {
		err = sql.ErrNoRows
	}
	return err
}
