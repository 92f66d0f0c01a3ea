package account

import (
	"context"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Method is a way to prove an identity.
type Method string

// The methods.
const (
	Password     Method = "PASSWORD"
	TOTP         Method = "TOTP"
	RecoveryCode Method = "RECOVERY_CODE"
	Passkey      Method = "PASSKEY" // no account has one yet
	Provider     Method = "SSO"
)

// Methods are the methods of a session in the order of their proofs, separated by spaces.
type Methods string

// List returns the methods.
func (m Methods) List() (list []Method) {
	for _, one := range strings.Fields(string(m)) {
		list = append(list, Method(one))
	}
	return list
}

func (m Methods) has(methods ...Method) bool {
	return slices.ContainsFunc(m.List(), func(one Method) bool { return slices.Contains(methods, one) })
}

// in returns those of the methods that are among others.
func (m Methods) in(others Methods) Methods {
	list := slices.DeleteFunc(m.List(), func(one Method) bool { return !others.has(one) })
	var kept Methods
	for _, one := range list {
		kept = kept.and(one)
	}
	return kept
}

func (m Methods) and(one Method) Methods {
	return Methods(strings.TrimSpace(string(m) + " " + string(one)))
}

// recent is how long after a log-in its session needs no proof, for an account without a password or
// that may not use it.
const recent = 10 * time.Minute

// The limits of wrong codes. A recovery code has 120 bits, and works beyond them.
var (
	wrongCodesOfAccount  = ratelimit.Rate{Name: "wrong-code-account", Attempts: 5, Window: 15 * time.Minute}
	wrongCodesPerAddress = ratelimit.Rate{Name: "wrong-code-address", Attempts: 100, Window: 15 * time.Minute}
)

// Proof is one proof of identity, or none. Errors name the Field of the input.
type Proof struct {
	Password, TOTP, RecoveryCode, Passkey *string
	Field                                 string
}

// ProofOfCode returns the proof of a text that may be a code of an authenticator app or a recovery
// code; none for an empty text.
func ProofOfCode(code string) Proof {
	switch code = validate.Typed(code); {
	case code == "":
		return Proof{}
	case len(code) == int(otp.DigitsSix):
		return Proof{TOTP: &code}
	}
	return Proof{RecoveryCode: &code}
}

// Method returns the method of the proof; empty for none.
func (p Proof) Method() Method {
	switch {
	case p.Password != nil:
		return Password
	case p.TOTP != nil:
		return TOTP
	case p.RecoveryCode != nil:
		return RecoveryCode
	case p.Passkey != nil:
		return Passkey
	}
	return ""
}

// proven is a checked proof, which is spent in the transaction of its operation: a code is valid
// once.
type proven struct {
	method Method
	step   int64  // of a TOTP code
	hash   []byte // of a recovery code
	field  string
}

// checkProof checks a proof of the account. It returns BadCredentials or RateLimited.
func (s *Store) checkProof(ctx context.Context, a *Account, p Proof, by attempt) (proven, error) {
	switch p.Method() {
	case Password:
		err := s.checkPassword(ctx, a, *p.Password, by)
		if errs.Is(err, errs.BadCredentials) {
			err = errs.New(errs.BadCredentials, "This is not the current password.").At(p.Field)
		}
		return proven{method: Password}, err
	case TOTP:
		_, step, err := s.checkTOTP(ctx, a.ID, *p.TOTP, by.address, "enrolled_at IS NOT NULL")
		return proven{method: TOTP, step: step, field: p.Field}, atField(err, p.Field)
	case RecoveryCode:
		return proven{method: RecoveryCode, hash: recoveryHash(*p.RecoveryCode), field: p.Field}, nil
	}
	return proven{}, atField(errCode(), p.Field)
}

// RequireProof checks a proof of the actor before an operation on private data. It returns
// BadCredentials, InvalidInput, RateLimited or Unauthenticated.
func (s *Store) RequireProof(ctx context.Context, actor Actor, p Proof, address string) error {
	a, spent, err := s.requireProof(ctx, actor, p, address)
	if err != nil {
		return err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return s.spend(ctx, tx, a.ID, spent) })
	if err != nil {
		return fmt.Errorf("spending a proof: %w", err)
	}
	s.noteRecovery(ctx, a, spent)
	return nil
}

// requireProof checks a proof of the actor before an operation that cannot be undone, that may lock the
// user out, or that gives the account another address. A session alone, which a thief may have,
// proves nothing but a recent log-in at the provider, for an account that has no password or may not
// use it. It returns InvalidInput for no proof, BadCredentials or RateLimited.
func (s *Store) requireProof(ctx context.Context, actor Actor, p Proof, address string) (*Account, proven, error) {
	a, err := s.Enabled(ctx, actor.AccountID)
	switch {
	case err != nil:
		return nil, proven{}, err
	case p.Method() != "":
		spent, err := s.checkProof(ctx, a, p, attempt{a.Email, address, actor.SessionID})
		return a, spent, err
	case a.PasswordHash != "" && !(s.PasswordsOff && actor.Methods.has(Provider)):
		return nil, proven{}, errs.New(errs.InvalidInput, "Send the password, or another proof of identity.").
			At(p.Field)
	case s.Now().Sub(actor.AuthenticatedAt) > recent:
		return nil, proven{}, errs.New(errs.BadCredentials,
			"The log-in is more than ten minutes old. Send a proof of identity, or log in again.").
			At(p.Field)
	}
	return a, proven{}, nil
}

// requireFactor is requireProof by a second factor of an account that has one. It returns Conflict
// for others.
func (s *Store) requireFactor(ctx context.Context, actor Actor, p Proof, address string) (*Account, proven, error) {
	has, err := s.hasFactor(ctx, s.DB, actor.AccountID)
	if err != nil {
		return nil, proven{}, err
	}
	if !has {
		return nil, proven{}, errs.New(errs.Conflict, "This account has no authenticator app.")
	}
	if m := p.Method(); m == Password || m == "" {
		return nil, proven{}, errs.New(errs.BadCredentials,
			"A second factor is required: a code of the authenticator app, or a recovery code.").
			At(p.Field)
	}
	return s.requireProof(ctx, actor, p, address)
}

// spend spends a proof. It returns BadCredentials for a code that was used before.
func (s *Store) spend(ctx context.Context, tx bun.Tx, accountID string, p proven) error {
	var n int64
	var err error
	switch p.method {
	case TOTP:
		return atField(s.spendStep(ctx, tx, accountID, p.step), p.field)
	case RecoveryCode:
		n, err = db.Affected(tx.NewDelete().Model((*recoveryCode)(nil)).Where("hash = ?", p.hash).
			Where("account_id = ?", accountID).Exec(ctx))
	default:
		return nil
	}
	if err == nil && n == 0 {
		err = atField(errCode(), p.field)
	}
	return err
}

func errCode() error {
	return errs.New(errs.BadCredentials, "This proof of identity is wrong, or was used before.")
}

// atField has an error of BadCredentials name a field.
func atField(err error, field string) error {
	if errs.Is(err, errs.BadCredentials) {
		return errs.From(err).At(field)
	}
	return err
}

// unpadded is the base32 of secrets of authenticator apps and of refresh tokens.
var unpadded = base32.StdEncoding.WithPadding(base32.NoPadding)
