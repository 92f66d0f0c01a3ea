package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// enrollmentTTL is how long an authenticator app waits for its first code.
const enrollmentTTL = 10 * time.Minute

// authenticator is the row of an authenticator app.
type authenticator struct {
	bun.BaseModel `bun:"table:totp"`

	AccountID string `bun:",pk"`
	Secret    []byte // sealed
	CreatedAt time.Time
	// EnrolledAt is when its first code was confirmed; nil until then, and it is no factor.
	EnrolledAt *time.Time
	// UsedSteps are the steps of used codes, separated by spaces: see withStep.
	UsedSteps string
}

// Enrollment is an authenticator app that waits for its first code.
type Enrollment struct {
	// Secret is in base32, and URI the otpauth:// URI of the QR code.
	Secret, URI string
	ExpiresAt   time.Time
}

// EnrollTOTP stores a secret for an authenticator app, which is no factor until ConfirmTOTP. It
// replaces an earlier one that was not confirmed. It returns BadCredentials, InvalidInput without a
// required proof, Conflict, Forbidden or RateLimited.
func (s *Store) EnrollTOTP(ctx context.Context, actor Actor, p Proof, address string) (Enrollment, error) {
	a, spent, err := s.requireProof(ctx, actor, p, address)
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
	issuer := s.totpIssuer()
	e.URI = (&url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + a.Email,
		RawQuery: url.Values{"secret": {e.Secret}, "issuer": {issuer}}.Encode()}).String()
	return e, nil
}

// totpIssuer is the name under which authenticator apps list accounts of this instance: its host. A
// colon would end it in the label of the URI.
func (s *Store) totpIssuer() string {
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") { // an IPv6 address
		return "Linkforge"
	}
	return u.Hostname()
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
	var changed []Session
	err = s.changeFactors(ctx, actor, proven{}, func(ctx context.Context, tx bun.Tx) error {
		now := s.now()
		n, err := db.Affected(tx.NewUpdate().Model((*authenticator)(nil)).Set("enrolled_at = ?", now).
			Set("used_steps = ?", strconv.FormatInt(step, 10)).
			Where("account_id = ?", a.ID).Where("secret = ?", app.Secret).Where(waits).
			Where("created_at > ?", now.Add(-enrollmentTTL)).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return errs.New(errs.Expired, "The enrollment has expired. Start it again: call enrollTotp.").At("code")
		}
		_, err = tx.NewUpdate().Model(&changed).Set("methods = methods || ?", " "+TOTP).
			Set("methods_changed_at = ?", now).Where("id = ?", actor.SessionID).Returning("id, methods").Exec(ctx)
		if err == nil {
			codes, err = replaceRecoveryCodes(ctx, tx, a.ID)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("confirming an authenticator app: %w", err)
	}
	s.revoked.change(changed...)
	s.notify(ctx, a, "An authenticator app was added",
		"Your account on %s asks for a code of an authenticator app from now on, "+
			"and your other sessions have ended.")
	return a, codes, nil
}

// RemoveTOTP removes the authenticator app and all recovery codes, and ends the actor's other
// sessions. The tokens of the actor's own prove no factor any more, on every node within a second. It
// returns BadCredentials, Conflict or RateLimited.
func (s *Store) RemoveTOTP(ctx context.Context, actor Actor, p Proof, address string) (*Account, error) {
	a, spent, err := s.requireFactor(ctx, actor, p, address)
	if err != nil {
		return nil, err
	}
	var changed []Session
	err = s.changeFactors(ctx, actor, spent, func(ctx context.Context, tx bun.Tx) (err error) {
		changed, err = s.removeFactors(ctx, tx, a.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("removing an authenticator app: %w", err)
	}
	s.revoked.change(changed...)
	s.notify(ctx, a, "Your authenticator app was removed",
		"Your account on %s asks for no code of an authenticator app any more. "+
			"Its recovery codes are invalid, and your other sessions have ended.")
	return a, nil
}

// checkTOTP returns the account's authenticator app and the step of a code of it, which is valid
// from 30 seconds before its step until 30 seconds after it. It returns BadCredentials or
// RateLimited.
func (s *Store) checkTOTP(
	ctx context.Context, accountID, code, address, where string,
) (app authenticator, step int64, err error) {
	charged, err := s.Limits.ChargeAll(ctx, append(ratelimit.OfNetwork(wrongCodesPerAddress, address),
		ratelimit.Counter{Rate: wrongCodesOfAccount, Subject: accountID})...)
	if err != nil {
		return app, 0, err
	}
	err = s.DB.NewSelect().Model(&app).Where("account_id = ?", accountID).Where(where).Scan(ctx)
	if err != nil {
		return app, 0, db.NoRowsAs(errCode(), err, "looking up an authenticator app")
	}
	secret, err := s.Sealed.Open(secrets.TOTPSecret, accountID, app.Secret)
	if err != nil {
		return app, 0, err
	}
	step, err = stepOf(secret, code, s.Now())
	if err == nil {
		s.Limits.Refund(ctx, charged...)
	}
	return app, step, err
}

// stepSeconds is the duration of a step, as all authenticator apps have it.
const stepSeconds = 30

// stepOf returns the step of a code (RFC 6238) as a person types it: apps show it in two groups. It
// returns BadCredentials.
func stepOf(secret []byte, code string, now time.Time) (step int64, err error) {
	step, code = -1, validate.Typed(code)
	text := unpadded.EncodeToString(secret)
	for at := now.Unix()/stepSeconds - 1; at <= now.Unix()/stepSeconds+1; at++ {
		want, err := totp.GenerateCodeCustom(text, time.Unix(at*stepSeconds, 0),
			totp.ValidateOpts{Period: stepSeconds, Digits: otp.DigitsSix})
		if err != nil {
			return 0, fmt.Errorf("generating a code: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			step = at
		}
	}
	if step < 0 {
		return 0, errCode()
	}
	return step, nil
}

// spendStep records the step of a code as used. It returns BadCredentials if it was used before.
func (s *Store) spendStep(ctx context.Context, tx bun.Tx, accountID string, step int64) error {
	var app authenticator
	q := tx.NewSelect().Model(&app).Where("account_id = ?", accountID).Where("enrolled_at IS NOT NULL")
	if err := s.DB.ForChange(q).Scan(ctx); err != nil {
		return db.NoRowsAs(errCode(), err, "looking up an authenticator app")
	}
	used, isNew := withStep(app.UsedSteps, step, s.now().Unix()/stepSeconds)
	if !isNew {
		return errCode()
	}
	_, err := tx.NewUpdate().Model(&app).Set("used_steps = ?", used).WherePK().Exec(ctx)
	return err
}

// pastSteps is how many used steps are remembered that are over by the clock of the node, which may
// be ahead for a while.
const pastSteps = 8

// withStep adds a step to used ones, and reports whether it is new. Steps are compared one by one:
// a code of a clock that was ahead is no reason to refuse earlier ones. Those that are to come stay,
// because their codes will be right.
func withStep(used string, step, now int64) (steps string, isNew bool) {
	all := strings.Fields(used)
	text := strconv.FormatInt(step, 10)
	if slices.Contains(all, text) {
		return used, false
	}
	var kept []string
	for i, s := range all {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n >= now-1 || i > len(all)-pastSteps {
			kept = append(kept, s)
		}
	}
	return strings.Join(append(kept, text), " "), true
}
