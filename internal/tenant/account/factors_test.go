package account

import (
	"bytes"
	"context"
	"encoding/base32"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestStepOf_MatchesVectors of RFC 4226, appendix D, and of the last six digits of RFC 6238,
// appendix B.
func TestStepOf_MatchesVectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	codes := map[int64]string{59 / 30: "287082", 1111111109 / 30: "081804", 1111111111 / 30: "050471",
		1234567890 / 30: "005924",
		2000000000 / 30: "279037", 20000000000 / 30: "353130"}
	for step, code := range []string{"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583",
		"399871", "520489"} {
		codes[int64(step)] = code
	}
	for step, code := range codes {
		for off := max(-2, -step); off <= 2; off++ {
			got, err := stepOf(secret, code, time.Unix((step+off)*30+15, 0))
			if isValid := off >= -1 && off <= 1; isValid && (got != step || err != nil) ||
				!isValid && !errs.Is(err, errs.BadCredentials) {
				t.Errorf("%s is of step %d, %d steps later: %v", code, got, off, err)
			}
		}
	}
}

// TestCodes_AsPeopleTypeThem: apps and lists show codes in groups, and copies have other separators.
func TestCodes_AsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"755 224", "755-224", " 755\u00a0224\n", "755\u2013224"} {
		if step, err := stepOf([]byte("12345678901234567890"), code, time.Unix(0, 0)); step != 0 || err != nil {
			t.Errorf("%q: %v", code, err)
		}
	}
	if p := ProofOfCode("755\u00a0224"); p.TOTP == nil || *p.TOTP != "755224" {
		t.Errorf("%+v", p)
	}
	want := HashSecret("0123456789ABCDEFGHJKMNPQ")
	for _, code := range []string{"012345-6789AB-CDEFGH-JKMNPQ", "o12345\n6789ab\r\ncdefgh\u00a0jkmnpq",
		"012345\u20116789AB\u2013CDEFGH\u2212JKMNPQ", "\u200b012345 6789AB\tCDEFGH JKMNPQ"} {
		if !bytes.Equal(recoveryHash(code), want) {
			t.Errorf("%q is another recovery code", code)
		}
	}
}

func TestTOTPIssuer_HasNoColon(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{
		"https://sho.rt": "sho.rt", "http://localhost:8080": "localhost", "http://[::1]:8080": "Linkforge",
	} {
		s := &Store{PublicURL: public}
		if got := s.totpIssuer(); got != want {
			t.Errorf("%s: %q, want %q", public, got, want)
		}
	}
}

// owner is an account with an authenticator app.
type owner struct {
	*bundle
	box      *mailbox
	me       Actor
	secret   string
	recovery []string
}

func enroll(t *testing.T, d *db.DB) *owner {
	t.Helper()
	b, box, l := setupMail(t, d)
	b.Sealed = secrets.Box{Key: []byte(strings.Repeat("k", 32))}
	must.Value(b.VerifyEmail(t.Context(), box.last(t, 1)))(t)
	o := &owner{bundle: b, box: box}
	o.me = must.Value(b.as(t, l.Token))(t)
	o.secret = must.Value(b.EnrollTOTP(t.Context(), o.me, with(password), b.address))(t).Secret
	_, codes, err := b.ConfirmTOTP(t.Context(), o.me, o.code(t), b.address)
	must.NoError(t, err)
	o.recovery = codes
	b.now = b.now.Add(time.Minute)
	return o
}

// eachOwner runs a test as each does, with an enrolled account.
func eachOwner(t *testing.T, test func(t *testing.T, o *owner)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, enroll(t, d))
	})
}

// code returns the code of the authenticator app.
func (o *owner) code(t *testing.T) string {
	t.Helper()
	return must.Value(totp.GenerateCode(o.secret, o.now))(t)
}

func (o *owner) totp(t *testing.T) Proof { return Proof{TOTP: new(o.code(t)), Field: "proof"} }

func (o *owner) challenge(t *testing.T) string {
	t.Helper()
	l := must.Value(o.Login(t.Context(), o.email, password, o.from()))(t)
	if l.Token != "" || l.RefreshToken != "" || l.Account != nil || l.Challenge == nil {
		t.Fatalf("the answer is %+v, want a challenge alone", l)
	}
	return l.Challenge.Token
}

// TestLogin_NeedsSecondFactor by every path to a session, with every proof that is missing, wrong,
// used or another account's.
func TestLogin_NeedsSecondFactor(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		o, other := enroll(t, d), enroll(t, d)
		must.NoError(t, o.LogoutEverywhere(t.Context(), o.me, false))
		used := o.code(t)
		must.Value(o.CompleteLogin(t.Context(), o.challenge(t), Proof{TOTP: &used}, o.from()))(t)
		must.Value(o.CompleteLogin(t.Context(), o.challenge(t), Proof{RecoveryCode: &o.recovery[0]}, o.from()))(t)
		must.NoError(t, o.LogoutEverywhere(t.Context(), Actor{AccountID: o.me.AccountID}, false))
		for name, p := range map[string]Proof{
			"none": {}, "a password": with(password), "an empty code": {TOTP: new("")}, "a used code": {TOTP: &used},
			"another app's code": other.totp(t), "a code that is too long": {TOTP: new("0" + o.code(t))},
			"a wide code":      {TOTP: new("１２３４５６")},
			"an old code":      {TOTP: new(must.Value(totp.GenerateCode(o.secret, o.now.Add(-time.Minute)))(t))},
			"an early code":    {TOTP: new(must.Value(totp.GenerateCode(o.secret, o.now.Add(time.Minute)))(t))},
			"no recovery code": {RecoveryCode: new("")}, "a used recovery code": {RecoveryCode: &o.recovery[0]},
			"another account's": {RecoveryCode: &other.recovery[0]}, "a passkey": {Passkey: new("{}")},
		} {
			o.Limits.Reset(t.Context(), wrongCodesOfAccount, o.me.AccountID)
			p.Field = "proof"
			at(t, errs.BadCredentials, "proof")(o.CompleteLogin(t.Context(), o.challenge(t), p, o.from()))
			o.request(t)
			p.Field = "secondFactor"
			token := o.box.last(t, len(o.box.messages))
			at(t, errs.BadCredentials, "secondFactor")(o.ResetPassword(t.Context(), token, newPassword, p, o.from()))
			if n := o.going(t); n != 1 {
				t.Errorf("%s: %d sessions, want that of the other account", name, n)
			}
			o.Limits.Reset(t.Context(), requestsPerEmail, o.email)
		}
		o.request(t)
		must.Value(o.ResetPassword(t.Context(), o.box.last(t, len(o.box.messages)), newPassword,
			Proof{RecoveryCode: &o.recovery[1]}, o.from()))(t)
	})
}

// TestProofs_AreSpentOnce by a hundred calls at once.
func TestProofs_AreSpentOnce(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		var challenges []string
		for range 100 {
			o.Limits.Off = true
			challenges = append(challenges, o.challenge(t))
		}
		code := o.totp(t)
		recovery := Proof{RecoveryCode: new(" " + strings.ToLower(strings.ReplaceAll(o.recovery[0], "-", " ")))}
		for name, call := range map[string]func(i int) error{
			"a code": func(i int) error {
				return errstest.Of(o.CompleteLogin(t.Context(), challenges[i], code, o.from()))
			},
			"a recovery code": func(i int) error {
				return errstest.Of(o.CompleteLogin(t.Context(), challenges[i], recovery, o.from()))
			},
		} {
			if got := atOnce(100, call); got["OK"] != 1 || len(got) > 2 {
				t.Errorf("%s: %v", name, got)
			}
			challenges = challenges[:0]
			for range 100 {
				challenges = append(challenges, o.challenge(t))
			}
		}
		one := o.challenge(t)
		got := atOnce(9, func(i int) error {
			return errstest.Of(o.CompleteLogin(t.Context(), one, Proof{RecoveryCode: &o.recovery[1+i]}, o.from()))
		})
		if got["OK"] != 1 {
			t.Errorf("a challenge: %v", got)
		}
		if f := must.Value(o.FactorsOf(t.Context(), o.me.AccountID))(t); f.RecoveryCodes != 8 {
			t.Errorf("%d recovery codes are left: a challenge that is used up has spent others", f.RecoveryCodes)
		}
	})
}

// TestSpend_ComparesEachCode: a code of a clock that was ahead does not block right ones, each code
// is valid once, and the one that was ahead also when its time has come.
func TestSpend_ComparesEachCode(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		o.Limits.Off = true
		start := o.now.Add(10 * time.Minute)
		for _, c := range []struct {
			name           string
			clock, ofClock time.Duration // of the node and of the code, after the start
			isRight        bool
		}{
			{"a phone that is a step ahead", 0, stepSeconds, true},
			{"the right code", 0, 0, true},
			{"the code before", 0, -stepSeconds, true},
			{"the right code again", 0, 0, false},
			{"the code ahead, in its step", stepSeconds, stepSeconds, false},
			{"a node that is a day ahead", 86400, 86400, true},
			{"the same again", 86400, 86400, false},
			{"the right code after that", 60, 60, true},
			{"the same after that", 60, 60, false},
			{"an earlier one after that", stepSeconds, stepSeconds, false},
			{"a day later", 86400, 86400, false},
			{"the next one of that day", 86400, 86400 + stepSeconds, true},
			{"beyond the window", 0, 2 * stepSeconds, false},
		} {
			o.now = start.Add(c.clock * time.Second)
			code := must.Value(totp.GenerateCode(o.secret, start.Add(c.ofClock*time.Second)))(t)
			_, err := o.CompleteLogin(t.Context(), o.challenge(t), Proof{TOTP: &code, Field: "proof"}, o.from())
			if c.isRight != (err == nil) || err != nil && !errs.Is(err, errs.BadCredentials) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

// TestWithStep_RemembersWhatCouldBeRight of many codes.
func TestWithStep_RemembersWhatCouldBeRight(t *testing.T) {
	t.Parallel()
	used, isNew := "900 unreadable", true
	for step := int64(100); step < 200 && isNew; step++ {
		used, isNew = withStep(used, step, step)
	}
	if want := "900 unreadable 192 193 194 195 196 197 198 199"; !isNew || used != want {
		t.Errorf("%q, want %q", used, want)
	}
	for _, step := range []int64{900, 192, 199} {
		if after, isNew := withStep(used, step, step); isNew || after != used {
			t.Errorf("step %d is new", step)
		}
	}
}

// TestCompleteLogin_BoundsTries of a challenge and of an account.
func TestCompleteLogin_BoundsTries(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		token := o.challenge(t)
		wrong := Proof{TOTP: new("000000"), Field: "proof"}
		for range maxTries {
			at(t, errs.BadCredentials, "proof")(o.CompleteLogin(t.Context(), token, wrong, o.from()))
		}
		at(t, errs.Expired, "challenge")(
			o.CompleteLogin(t.Context(), token, Proof{RecoveryCode: &o.recovery[0]}, o.from()))
		token = o.challenge(t)
		wantError(t, errs.RateLimited, "after five wrong codes")(
			o.CompleteLogin(t.Context(), token, o.totp(t), o.from()))
		must.Value(o.CompleteLogin(t.Context(), token, Proof{RecoveryCode: &o.recovery[0]}, o.from()))(t)
		if text := o.box.messages[len(o.box.messages)-1].text; !strings.Contains(text, "9 are left") {
			t.Errorf("the message is %q", text)
		}
		token = o.challenge(t)
		o.now = o.now.Add(challengeTTL)
		at(t, errs.Expired, "challenge")(
			o.CompleteLogin(t.Context(), token, Proof{RecoveryCode: &o.recovery[1]}, o.from()))
	})
}

// TestChallenge_EndsWithSessions: half a login with the old password is worth nothing after it has
// changed.
func TestChallenge_EndsWithSessions(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		for name, end := range map[string]func() error{
			"logoutEverywhere": func() error { return o.LogoutEverywhere(t.Context(), o.me, true) },
			"changePassword": func() error {
				return errstest.Of(o.ChangePassword(t.Context(), o.me, o.totp(t), password, o.address))
			},
			"end-sessions": func() error { _, _, err := o.EndSessions(t.Context(), o.email); return err },
		} {
			l := must.Value(o.CompleteLogin(t.Context(), o.challenge(t), o.totp(t), o.from()))(t)
			o.me, o.now = must.Value(o.as(t, l.Token))(t), o.now.Add(time.Minute)
			token := o.challenge(t)
			must.NoError(t, end())
			o.now = o.now.Add(time.Minute)
			_, err := o.CompleteLogin(t.Context(), token, o.totp(t), o.from())
			if !errs.Is(err, errs.Expired) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestEnrollTOTP_NeedsProof of the account, a verified address, and a key of the server.
func TestEnrollTOTP_NeedsProof(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		me := must.Value(b.as(t, l.Token))(t)
		refuse := func(what string, p Proof, want errs.Kind) {
			t.Helper()
			if _, err := b.EnrollTOTP(t.Context(), me, p, b.address); !errs.Is(err, want) {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		refuse("with an unverified address", with(password), errs.Forbidden)
		must.Value(b.VerifyEmail(t.Context(), box.last(t, 1)))(t)
		refuse("without a key", with(password), errs.Forbidden)
		b.Sealed = secrets.Box{Key: []byte(strings.Repeat("k", 32))}
		refuse("with a young session alone", Proof{}, errs.InvalidInput)
		b.now = b.now.Add(recent + time.Second)
		refuse("with an old session", Proof{}, errs.InvalidInput)
		refuse("with a wrong password", with("a wrong password"), errs.BadCredentials)
		first := must.Value(b.EnrollTOTP(t.Context(), me, with(password), b.address))(t)
		if want := "otpauth://totp/sho.rt:" + b.email + "?issuer=sho.rt&secret=" + first.Secret; first.URI != want {
			t.Errorf("the URI is %s, want %s", first.URI, want)
		}
		if secret := must.Value(base32.StdEncoding.DecodeString(first.Secret))(t); len(secret) != 20 {
			t.Errorf("the secret has %d bytes", len(secret))
		}
		o := &owner{bundle: b, box: box, me: me,
			secret: must.Value(b.EnrollTOTP(t.Context(), me, with(password), b.address))(t).Secret}
		at(t, errs.BadCredentials, "code")(
			b.ConfirmTOTP(t.Context(), me, must.Value(totp.GenerateCode(first.Secret, b.now))(t), b.address))
		b.now = b.now.Add(enrollmentTTL)
		at(t, errs.Expired, "code")(b.ConfirmTOTP(t.Context(), me, o.code(t), b.address))
		if l := must.Value(b.Login(t.Context(), b.email, password, b.from()))(t); l.Challenge != nil {
			t.Error("a pending app is a factor")
		}
		o.secret = must.Value(b.EnrollTOTP(t.Context(), me, with(password), b.address))(t).Secret
		_, codes, err := b.ConfirmTOTP(t.Context(), me, o.code(t), b.address)
		if err != nil || len(codes) != recoveryCodes {
			t.Fatalf("%q: %v", codes, err)
		}
		refuse("a second app", with(password), errs.Conflict)
		if n := b.going(t); n != 1 {
			t.Errorf("%d sessions go on, want the caller's", n)
		}
		s := must.Value(b.SessionsByID(t.Context(), me, me.SessionID))(t)
		wanttest.Equal(t, []Method{Password, TOTP}, s[0].Methods.List(), "methods of the session")
	})
}

// TestRemoveTOTP_NeedsFactor and makes the account one with a password alone.
func TestRemoveTOTP_NeedsFactor(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		for _, p := range []Proof{{}, with(password), {TOTP: new("000000")}, {RecoveryCode: new("x")}} {
			wantError(t, errs.BadCredentials, "%s", p.Method())(o.RemoveTOTP(t.Context(), o.me, p, o.address))
		}
		renewed := must.Value(o.RenewRecoveryCodes(t.Context(), o.me, o.totp(t), o.address))(t)
		wantError(t, errs.BadCredentials, "with a replaced code")(
			o.RemoveTOTP(t.Context(), o.me, Proof{RecoveryCode: &o.recovery[0]}, o.address))
		must.Value(o.RemoveTOTP(t.Context(), o.me, Proof{RecoveryCode: &renewed[9]}, o.address))(t)
		if n := rows(t, o.DB, "recovery_codes"); n != 0 {
			t.Errorf("%d recovery codes are left", n)
		}
		if l := must.Value(o.Login(t.Context(), o.email, password, o.from()))(t); l.Token == "" {
			t.Error("a login needs a factor that was removed")
		}
		wantError(t, errs.Conflict, "twice")(o.RemoveTOTP(t.Context(), o.me, o.totp(t), o.address))
	})
}

// TestLogin_FailsWhenOvertakenByFactor began without a factor, and ends after one was enrolled.
func TestLogin_FailsWhenOvertakenByFactor(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		a := must.Value(o.byEmail(t.Context(), o.email))(t)
		wantError(t, errs.BadCredentials, "begun with the password alone")(
			o.beginSession(t.Context(), pendingLogin{account: a, Methods: Methods(Password)}, o.from()))
	})
}

// TestResetFactors is for an owner who has lost the phone and the codes.
func TestResetFactors(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		must.Value(o.ResetFactors(t.Context(), o.email))(t)
		if n := o.going(t); n != 0 {
			t.Errorf("%d sessions go on", n)
		}
		if l := must.Value(o.Login(t.Context(), o.email, password, o.from()))(t); l.Token == "" {
			t.Error("a login needs a factor that was removed")
		}
		wantError(t, errs.Conflict, "twice")(o.ResetFactors(t.Context(), o.email))
	})
}

func (b *bundle) pending(t *testing.T, accountID string) string {
	t.Helper()
	return must.Value(b.PrivateOf(t.Context(), accountID))(t)[accountID].PendingEmail
}

// TestUpdate_ChangesAddressWhenVerified notifies the old address, and voids the links mailed to it.
func TestUpdate_ChangesAddressWhenVerified(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, l Login) {
		me := must.Value(b.as(t, l.Token))(t)
		verification, next := box.last(t, 1), "next-"+b.email
		a := must.Value(
			b.Update(t.Context(), me, new(" Grace "), new(strings.ToUpper(next)), with(password), b.address))(t)
		if a.Name != "Grace" || a.Email != b.email || b.pending(t, a.ID) != next {
			t.Errorf("the account is %+v", a)
		}
		token := box.last(t, 2)
		if box.messages[1].to != next {
			t.Errorf("the token was sent to %s", box.messages[1].to)
		}
		b.request(t)
		reset := box.last(t, 3)
		at(t, errs.InvalidInput, "proof")(
			b.Update(t.Context(), me, nil, new("third-"+b.email), Proof{Field: "proof"}, b.address))
		verified := must.Value(b.VerifyEmail(t.Context(), token))(t)
		if verified.Email != next || !verified.EmailVerified() || b.pending(t, a.ID) != "" {
			t.Errorf("the account is %+v", verified)
		}
		if last := box.messages[len(box.messages)-1]; last.to != b.email ||
			!strings.Contains(last.subject, "was changed") {
			t.Errorf("the last message is %+v", last)
		}
		for _, old := range []string{verification, token} {
			at(t, errs.BadCredentials, "token")(b.VerifyEmail(t.Context(), old))
		}
		at(t, errs.BadCredentials, "token")(b.ResetPassword(t.Context(), reset, newPassword, Proof{}, b.from()))
		must.Value(b.Login(t.Context(), next, password, b.from()))(t)
	})
}

// TestUpdate_KeepsAddressesUnique, also between two that are verified at once.
func TestUpdate_KeepsAddressesUnique(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, _ Login) {
		var tokens []string
		for i := range 4 {
			l := b.register(t, fmt.Sprint(i, b.email))
			me := must.Value(b.as(t, l.Token))(t)
			must.Value(b.Update(t.Context(), me, nil, new("wanted-"+b.email), with(password), b.address))(t)
			tokens = append(tokens, box.last(t, len(box.messages)))
		}
		got := atOnce(4, func(i int) error { _, err := b.VerifyEmail(t.Context(), tokens[i]); return err })
		wanttest.Equal(t, map[string]int{"OK": 1, "EMAIL_TAKEN": 3}, got, "result")
		b.Mail = nil // an address counts at once
		me := must.Value(b.as(t, b.register(t, "unmailed-"+b.email).Token))(t)
		at(t, errs.EmailTaken, "email")(
			b.Update(t.Context(), me, nil, new("wanted-"+b.email), with(password), b.address))
		a := must.Value(b.Update(t.Context(), me, nil, new("free-"+b.email), with(password), b.address))(t)
		if a.Email != "free-"+b.email || a.EmailVerified() {
			t.Errorf("the account is %+v", a)
		}
	})
}

// TestDelete_TakesFactors with the account.
func TestDelete_TakesFactors(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		o.challenge(t)
		identity := &Identity{Issuer: "https://id.example", Subject: "ada", AccountID: o.me.AccountID, CreatedAt: noon,
			UsedAt: noon}
		must.Value(o.DB.NewInsert().Model(identity).Exec(t.Context()))(t)
		nothing := func(context.Context, bun.Tx, string) error { return nil }
		must.NoError(t, o.Delete(t.Context(), o.me, o.totp(t), o.address, nothing))
		for _, table := range []string{"totp", "recovery_codes", "auth_flows", "sso_identities"} {
			if n := rows(t, o.DB, table); n != 0 {
				t.Errorf("%d rows of %s are left", n, table)
			}
		}
	})
}

// TestUpdate_TellsOfSpentRecoveryCode as all other calls that spend one.
func TestUpdate_TellsOfSpentRecoveryCode(t *testing.T) {
	eachOwner(t, func(t *testing.T, o *owner) {
		must.Value(o.Update(t.Context(), o.me, nil, new("new-"+o.email), Proof{RecoveryCode: &o.recovery[0]},
			o.address))(t)
		if mailed := fmt.Sprint(o.box.messages); !strings.Contains(mailed, "9 are left") {
			t.Errorf("mailed: %s", mailed)
		}
	})
}
