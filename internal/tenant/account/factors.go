package account

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/secrets"
)

// enrollmentTTL is how long an authenticator app waits for its first code.
const enrollmentTTL = 10 * time.Minute

// authenticator is the row of an authenticator app.
type authenticator struct {
	bun.BaseModel `bun:"table:totp"`

	AccountID string `bun:",pk"`
	Secret    []byte // sealed
	// LastStep is the step of the last code, so that each code is valid once.
	LastStep  int64
	CreatedAt time.Time
	// EnrolledAt is when its first code was confirmed; nil until then, and it is no factor.
	EnrolledAt *time.Time
}

// Factors are the second factors of an account.
type Factors struct {
	// TOTPSince is when an authenticator app was enrolled; nil without one.
	TOTPSince *time.Time
	// RecoveryCodes is the number of unused codes.
	RecoveryCodes int
}

// TOTP reports whether an authenticator app is enrolled.
func (f Factors) TOTP() bool { return f.TOTPSince != nil }

// FactorsOf returns the second factors of an account.
func (s *Store) FactorsOf(ctx context.Context, accountID string) (f Factors, err error) {
	count := s.DB.NewSelect().Model((*recoveryCode)(nil)).ColumnExpr("count(*)").Where("account_id = account.id")
	err = s.DB.NewSelect().Model((*Account)(nil)).ColumnExpr("app.enrolled_at AS totp_since").
		ColumnExpr("(?) AS recovery_codes", count).
		Join("LEFT JOIN totp AS app ON app.account_id = account.id").Where("account.id = ?", accountID).Scan(ctx, &f)
	if err != nil {
		return Factors{}, fmt.Errorf("reading second factors: %w", err)
	}
	return f, nil
}

// Enrollment is an authenticator app that waits for its first code.
type Enrollment struct {
	// Secret is in base32, and URI the otpauth:// URI of the QR code.
	Secret, URI string
	ExpiresAt   time.Time
}

// EnrollTOTP stores a secret for an authenticator app, which is no factor until ConfirmTOTP. It
// replaces an earlier one that was not confirmed. Without a proof the session must be recent. It
// returns BadCredentials, Conflict, Forbidden or RateLimited.
func (s *Store) EnrollTOTP(ctx context.Context, actor Actor, p Proof, address string) (Enrollment, error) {
	a, spent, err := s.prove(ctx, actor, p, address)
	if err != nil {
		return Enrollment{}, err
	}
	if s.sendsMail() && !a.EmailVerified() {
		return Enrollment{}, errs.New(errs.Forbidden,
			"Verify your e-mail address first: call requestEmailVerification.")
	}
	var secret [20]byte
	_, _ = rand.Read(secret[:]) // never fails
	now := s.now()
	app := &authenticator{AccountID: a.ID, CreatedAt: now}
	if app.Secret, err = s.Sealed.Seal(secrets.TOTPSecret, a.ID, secret[:]); err != nil {
		return Enrollment{}, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.lockFor(ctx, tx, actor); err != nil {
			return err
		}
		if err := s.spend(ctx, tx, a.ID, spent); err != nil {
			return err
		}
		n, err := db.Affected(tx.NewInsert().Model(app).On("CONFLICT (account_id) DO UPDATE").
			Set("secret = EXCLUDED.secret").
			Set("created_at = EXCLUDED.created_at").Where("authenticator.enrolled_at IS NULL").Exec(ctx))
		if err == nil && n == 0 {
			err = errs.New(errs.Conflict, "This account has an authenticator app. Remove it first: call removeTotp.")
		}
		return err
	})
	if err != nil {
		return Enrollment{}, db.NoRowsAs(errNoAccount(), err, "enrolling an authenticator app")
	}
	e := Enrollment{Secret: unpadded.EncodeToString(secret[:]), ExpiresAt: now.Add(enrollmentTTL)}
	issuer := s.PublicURL
	if u, err := url.Parse(s.PublicURL); err == nil {
		issuer = u.Host
	}
	e.URI = (&url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + a.Email,
		RawQuery: url.Values{"secret": {e.Secret}, "issuer": {issuer}}.Encode()}).String()
	return e, nil
}

// ConfirmTOTP makes the authenticator app a second factor, ends the actor's other sessions, and
// returns the account's recovery codes. The session has proved the factor, too. It returns
// BadCredentials, Expired or RateLimited.
func (s *Store) ConfirmTOTP(ctx context.Context, actor Actor, code, address string) (*Account, []string, error) {
	a, err := s.Enabled(ctx, actor.AccountID)
	if err != nil {
		return nil, nil, err
	}
	const waits = "enrolled_at IS NULL"
	app, step, err := s.checkTOTP(ctx, a.ID, code, address, waits)
	if err != nil {
		return nil, nil, atField(err, "code")
	}
	var codes []string
	err = s.changeFactors(ctx, actor, proven{}, func(ctx context.Context, tx bun.Tx) error {
		now := s.now()
		n, err := db.Affected(tx.NewUpdate().Model((*authenticator)(nil)).Set("enrolled_at = ?", now).
			Set("last_step = ?", step).
			Where("account_id = ?", a.ID).Where("secret = ?", app.Secret).Where(waits).
			Where("created_at > ?", now.Add(-enrollmentTTL)).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return errs.New(errs.Expired, "The enrollment has expired. Start it again: call enrollTotp.").At("code")
		}
		_, err = tx.NewUpdate().Model((*Session)(nil)).Set("methods = methods || ?", " "+TOTP).
			Where("id = ?", actor.SessionID).Exec(ctx)
		if err == nil {
			codes, err = replaceRecoveryCodes(ctx, tx, a.ID)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("confirming an authenticator app: %w", err)
	}
	s.notify(ctx, a, "An authenticator app was added",
		"Your account on %s asks for a code of an authenticator app from now on, "+
			"and your other sessions have ended.")
	return a, codes, nil
}

// RemoveTOTP removes the authenticator app and all recovery codes, and ends the actor's other
// sessions. It returns BadCredentials, Conflict or RateLimited.
func (s *Store) RemoveTOTP(ctx context.Context, actor Actor, p Proof, address string) (*Account, error) {
	a, spent, err := s.requireFactor(ctx, actor, p, address)
	if err != nil {
		return nil, err
	}
	err = s.changeFactors(ctx, actor, spent, func(ctx context.Context, tx bun.Tx) error {
		return s.removeFactors(ctx, tx, a.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("removing an authenticator app: %w", err)
	}
	s.notify(ctx, a, "Your authenticator app was removed",
		"Your account on %s asks for no code of an authenticator app any more. "+
			"Its recovery codes are invalid, and your other sessions have ended.")
	return a, nil
}

// RenewRecoveryCodes replaces the recovery codes, and ends the actor's other sessions. It returns
// BadCredentials, Conflict or RateLimited.
func (s *Store) RenewRecoveryCodes(ctx context.Context, actor Actor, p Proof, address string) ([]string, error) {
	a, spent, err := s.requireFactor(ctx, actor, p, address)
	if err != nil {
		return nil, err
	}
	var codes []string
	err = s.changeFactors(ctx, actor, spent, func(ctx context.Context, tx bun.Tx) (err error) {
		codes, err = replaceRecoveryCodes(ctx, tx, a.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replacing recovery codes: %w", err)
	}
	s.notify(ctx, a, "Your recovery codes were replaced",
		"The recovery codes of your account on %s were replaced. Earlier ones are invalid.")
	return codes, nil
}

// changeFactors changes the factors of the actor's account in a transaction that spends the proof
// and ends the other sessions.
func (s *Store) changeFactors(
	ctx context.Context, actor Actor, spent proven, change func(ctx context.Context, tx bun.Tx) error,
) error {
	// A login that began before waits for the lock, and then sees the factors.
	err := s.endSessions(ctx, actor, func(ctx context.Context, tx bun.Tx) error {
		if err := s.spend(ctx, tx, actor.AccountID, spent); err != nil {
			return err
		}
		return change(ctx, tx)
	})
	if err != nil {
		err = db.NoRowsAs(errNoAccount(), err, "changing second factors")
	}
	return err
}

// removeFactors removes the account's factors. Sessions that it keeps have not proved one any more.
func (s *Store) removeFactors(ctx context.Context, tx bun.Tx, accountID string) error {
	for _, model := range []any{(*authenticator)(nil), (*recoveryCode)(nil)} {
		if _, err := tx.NewDelete().Model(model).Where("account_id = ?", accountID).Exec(ctx); err != nil {
			return err
		}
	}
	_, err := tx.NewUpdate().Model((*Session)(nil)).
		Set("methods = CASE WHEN methods LIKE 'SSO%' THEN 'SSO' ELSE 'PASSWORD' END").
		Where("account_id = ?", accountID).Exec(ctx)
	return err
}

func (s *Store) hasFactor(ctx context.Context, conn bun.IDB, accountID string) (bool, error) {
	has, err := conn.NewSelect().Model((*authenticator)(nil)).Where("account_id = ?", accountID).
		Where("enrolled_at IS NOT NULL").Exists(ctx)
	if err != nil {
		return false, fmt.Errorf("looking up an authenticator app: %w", err)
	}
	return has, nil
}

// noteRecovery mails the user the number of remaining recovery codes, after one was spent.
func (s *Store) noteRecovery(ctx context.Context, a *Account, spent proven) {
	if spent.method != RecoveryCode {
		return
	}
	f, err := s.FactorsOf(ctx, a.ID)
	if err != nil {
		s.Log.Log(ctx, errs.LogLevel(err), "counting recovery codes failed", "error", err)
		return
	}
	s.notify(ctx, a, "A recovery code was used", "A recovery code of your account on %s was used; %d are left.",
		f.RecoveryCodes)
}

// notify mails the user a description of a change, if mail is configured. The format names the
// instance as %s, before the arguments.
func (s *Store) notify(ctx context.Context, a *Account, subject, format string, args ...any) {
	if s.sendsMail() {
		s.Mail.Send(ctx, a.Email, subject, fmt.Sprintf(format, slices.Insert(args, 0, any(s.PublicURL))...)+
			"\n\nIf that was not you, choose a new password and end all sessions.\n")
	}
}
