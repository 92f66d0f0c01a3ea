package account

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/sso"
	"github.com/linkforge/linkforge/internal/tenant/sso/ssotest"
)

const ssoPage = "https://app.example/sso"

// signOn is a store with an identity provider.
type signOn struct {
	*owner
	provider *ssotest.Server
	invited  []string
	groups   [][]string // of the logins
}

// withProvider adds a provider to a store.
func withProvider(t *testing.T, o *owner) *signOn {
	t.Helper()
	s := &signOn{owner: o, provider: ssotest.Open(t)}
	s.provider.Now = func() time.Time { return o.now }
	s.SSO = &SSO{
		Provider: sso.New(sso.Config{
			Issuer: s.provider.URL, ClientID: ssotest.ClientID, ClientSecret: ssotest.ClientSecret,
			Redirects:    []string{ssoPage},
			EmailDomains: []string{"example.com"}, Scopes: "openid email", GroupsClaim: "groups",
			Secrets: s.Tokens.Secrets, CheckEmail: CheckEmail, Now: s.Now, Log: slog.New(slog.DiscardHandler),
			Timeout: ssotest.Slow / 2,
		}),
		Name: "100% Example", Registers: true, SessionTTL: 12 * time.Hour,
		IsInvited: func(_ context.Context, email string) (bool, error) {
			return slices.Contains(s.invited, email), nil
		},
		SyncGroups: func(_ context.Context, _ bun.Tx, _ string, groups []string) error {
			s.groups = append(s.groups, groups)
			return nil
		},
	}
	return s
}

// signsOn is as setupMail with a provider.
func signsOn(t *testing.T, d *db.DB) *signOn {
	t.Helper()
	b, box, _ := setupMail(t, d)
	return withProvider(t, &owner{bundle: b, box: box})
}

// eachSignOn runs a test as each does, with a provider.
func eachSignOn(t *testing.T, test func(t *testing.T, s *signOn)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, signsOn(t, d))
	})
}

// respond has a user log in at the provider, and returns the response that the page submits.
func (s *signOn) respond(t *testing.T, u ssotest.User) sso.Response {
	t.Helper()
	started := must.Value(s.StartSSO(t.Context(), ssoPage, s.from()))(t)
	r := s.provider.LogIn(t, started.AuthorizationURL, u)
	return sso.Response{Secret: started.Secret, Code: r.Code, State: r.State, Issuer: r.Issuer}
}

func (s *signOn) finish(t *testing.T, u ssotest.User) (Login, error) {
	t.Helper()
	return s.FinishSSO(t.Context(), s.respond(t, u), s.from())
}

// TestFinishSSO_CreatesAccount with a verified address and no password, and finds it again by the
// identity.
func TestFinishSSO_CreatesAccount(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		grace := ssotest.User{Subject: "1", Email: "Grace-" + s.email, Name: "Grace", Groups: []string{"engines"}}
		first := must.Value(s.finish(t, grace))(t)
		a := first.Account
		if a.Email != "grace-"+s.email || !a.EmailVerified() || a.PasswordHash != "" || a.Name != "Grace" {
			t.Errorf("the account is %+v", a)
		}
		if l, err := s.Login(t.Context(), a.Email, "", s.from()); !errs.Is(err, errs.BadCredentials) {
			t.Errorf("an empty password: %+v, %v", l, err)
		}
		grace.Email = "renamed-" + s.email // ours stays
		again := must.Value(s.finish(t, grace))(t)
		if again.Account.ID != a.ID || again.Account.Email != a.Email {
			t.Errorf("the account is %+v", again.Account)
		}
		wanttest.Equal(t, [][]string{{"engines"}, {"engines"}}, s.groups, "groups")
		me := must.Value(s.as(t, again.Token))(t)
		if diff := cmp.Diff([]Method{Provider}, me.Methods.List()); diff != "" || me.HasSecondFactor {
			t.Errorf("the session has proved %s", diff)
		}
		_, _, err := s.SetDisabled(t.Context(), a.Email, true)
		must.NoError(t, err)
		wantError(t, errs.BadCredentials, "a disabled account")(s.finish(t, grace))
		grace.Subject, grace.Email = "2", a.Email
		if _, err := s.finish(t, grace); err == nil || err.Error() != s.SSO.Refuse(t.Context(), "account").Error() {
			t.Errorf("another identity with the address of a disabled account: %v", err)
		}
	})
}

// TestFinishSSO_ConnectsByPassword: a provider that asserts the address of an account opens it only
// with the proofs of its owner.
func TestFinishSSO_ConnectsByPassword(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		s := withProvider(t, enroll(t, d))
		s.SSO.TrustsFactors = true // with logins, not with accounts that it has not been connected with
		ada := ssotest.User{Subject: "1", Email: s.email, Groups: []string{"admins"}}
		l := must.Value(s.finish(t, ada))(t)
		if l.Account != nil || l.Token != "" || l.RefreshToken != "" || len(s.groups) != 0 {
			t.Fatalf("the answer is %+v, want a challenge alone", l)
		}
		wanttest.Equal(t, []Method{Password}, l.Challenge.Methods, "methods")
		token := l.Challenge.Token
		for _, p := range []Proof{with("a wrong password"), s.totp(t), {RecoveryCode: &s.recovery[0]}} {
			wantError(t, errs.BadCredentials, "%s", p.Method())(s.CompleteLogin(t.Context(), token, p, s.from()))
		}
		l = must.Value(s.CompleteLogin(t.Context(), token, with(password), s.from()))(t)
		if l.Challenge == nil || l.Token != "" {
			t.Fatalf("the answer is %+v, want a challenge for the factor", l)
		}
		if n := rows(t, d, "sso_identities"); n != 0 {
			t.Errorf("%d identities are linked by half a login", n)
		}
		l = must.Value(s.CompleteLogin(t.Context(), l.Challenge.Token, s.totp(t), s.from()))(t)
		if l.Account.ID != s.me.AccountID {
			t.Errorf("the account is %+v", l.Account)
		}
		if last := s.box.messages[len(s.box.messages)-1]; !strings.Contains(last.subject, "connected") ||
			!strings.Contains(last.text, "connected with 100% Example, which") {
			t.Errorf("the last message is %+v", last)
		}
		ada.Email = "elsewhere@example.com"
		if l = must.Value(s.finish(t, ada))(t); l.Token == "" || !must.Value(s.as(t, l.Token))(t).HasSecondFactor {
			t.Errorf("a connected identity of a trusted provider: %+v", l)
		}
		s.SSO.TrustsFactors = false
		if l = must.Value(s.finish(t, ada))(t); l.Challenge == nil {
			t.Errorf("a connected identity of another provider: %+v", l)
		}
	})
}

// TestFinishSSO_UsesTransactionOnce, by the browser that has started it, at any node, and within
// ten minutes.
func TestFinishSSO_UsesTransactionOnce(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		s.SSO.SessionTTL = time.Hour
		u := ssotest.User{Subject: "1", Email: "once-" + s.email}
		r, other := s.respond(t, u), s.respond(t, u)
		mixed := r
		mixed.Secret = other.Secret
		wantError(t, errs.BadCredentials, "in another browser")(s.FinishSSO(t.Context(), mixed, s.from()))
		got := atOnce(16, func(int) error { _, err := s.FinishSSO(t.Context(), r, s.from()); return err })
		wanttest.Equal(t, map[string]int{"OK": 1, "BAD_CREDENTIALS": 15}, got, "result")
		late := s.respond(t, u)
		s.now = s.now.Add(transactionTTL)
		wantError(t, errs.BadCredentials, "ten minutes later")(s.FinishSSO(t.Context(), late, s.from()))
		wantError(t, errs.InvalidInput, "another page")(s.StartSSO(t.Context(), ssoPage+"/", s.from()))
		l := must.Value(s.finish(t, u))(t)
		end := s.now.Add(time.Hour)
		if !l.ExpiresAt.Equal(end) {
			t.Errorf("the token expires at %s, after the session", l.ExpiresAt)
		}
		s.now = end.Add(-time.Second)
		l = must.Value(s.Refresh(t.Context(), l.RefreshToken))(t)
		s.now = end
		wantError(t, errs.BadCredentials, "a refreshed session goes on")(s.Refresh(t.Context(), l.RefreshToken))
	})
}

// TestFinishSSO_StartsNoSessionAfterFaults of the provider.
func TestFinishSSO_StartsNoSessionAfterFaults(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		before := rows(t, s.DB, "sessions")
		for _, fault := range ssotest.Faults() {
			if fault.Outage || strings.HasPrefix(fault.Check, "metadata") {
				continue // tested by package sso: they take their time, or metadata are in the cache
			}
			broken := withProvider(t, s.owner)
			started := must.Value(broken.StartSSO(t.Context(), ssoPage, s.from()))(t)
			fault.Apply(broken.provider)
			r := broken.provider.LogIn(t, started.AuthorizationURL,
				ssotest.User{Subject: "1", Email: "fault-" + s.email})
			_, err := broken.FinishSSO(t.Context(),
				sso.Response{Secret: started.Secret, Code: r.Code, State: r.State, Issuer: r.Issuer}, s.from())
			if !errs.Is(err, errs.BadCredentials) {
				t.Errorf("%s: %v", fault.Name, err)
			}
		}
		if n := rows(t, s.DB, "sessions"); n != before {
			t.Errorf("%d sessions", n-before)
		}
	})
}

// TestFinishSSO_RegistersByRule of the operator.
func TestFinishSSO_RegistersByRule(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		s.SSO.Registers = false
		u := ssotest.User{Subject: "1", Email: "rule-" + s.email}
		wantError(t, errs.Forbidden, "a stranger")(s.finish(t, u))
		s.invited = []string{u.Email}
		must.Value(s.finish(t, u))(t)
	})
}

// TestFinishSSO_NeedsGroups: a login whose memberships cannot be stored begins no session, and one
// that is refused changes none.
func TestFinishSSO_NeedsGroups(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		s := withProvider(t, enroll(t, d))
		ada := ssotest.User{Subject: "1", Email: s.email, Groups: []string{"engines"}}
		connected := must.Value(s.finish(t, ada))(t)
		connected = must.Value(s.CompleteLogin(t.Context(), connected.Challenge.Token, with(password), s.from()))(t)
		must.Value(s.CompleteLogin(t.Context(), connected.Challenge.Token, s.totp(t), s.from()))(t)
		sessions, synced := s.going(t), len(s.groups)

		l := must.Value(s.finish(t, ada))(t)
		used := Proof{RecoveryCode: &s.recovery[0]}
		must.Value(s.CompleteLogin(t.Context(), must.Value(s.finish(t, ada))(t).Challenge.Token, used, s.from()))(t)
		if _, err := s.CompleteLogin(t.Context(), l.Challenge.Token, used, s.from()); !errs.Is(err,
			errs.BadCredentials) || len(s.groups) != synced+1 {
			t.Errorf("a used code: %v, and %d changes of memberships", err, len(s.groups)-synced)
		}
		s.SSO.SyncGroups = func(context.Context, bun.Tx, string, []string) error { return errors.New("broken") }
		_, err := s.CompleteLogin(t.Context(), l.Challenge.Token, Proof{RecoveryCode: &s.recovery[1]}, s.from())
		if n := s.going(t); err == nil || n != sessions+1 {
			t.Errorf("without memberships: %v, %d sessions more", err, n-sessions)
		}
	})
}

// TestLogin_BreaksGlass where passwords are off: for named accounts with a second factor.
func TestLogin_BreaksGlass(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		s := withProvider(t, enroll(t, d))
		plain := "plain-" + s.email
		s.register(t, plain)
		s.PasswordsOff = true
		try := func(email, password string, want errs.Kind) {
			t.Helper()
			if _, err := s.Login(t.Context(), email, password, s.from()); !errs.Is(err, want) {
				t.Errorf("%s: %v, want %s", email, err, want)
			}
		}
		hasher := &comparisons{Passwords: s.Passwords}
		s.Passwords = hasher
		for _, email := range []string{s.email, plain, "nobody-" + s.email, "no address"} {
			try(email, password, errs.Forbidden)
			try(email, "a wrong password", errs.Forbidden)
		}
		s.BreakGlass = []string{s.email, plain}
		try(plain, password, errs.Forbidden)
		try(plain, "a wrong password", errs.Forbidden) // it has no factor
		if hasher.n != 0 {
			t.Errorf("%d passwords were compared", hasher.n)
		}
		try(s.email, "a wrong password", errs.BadCredentials)
		s.challenge(t)
		a := must.Value(s.find(t.Context(), plain))(t)
		wantError(t, errs.BadCredentials, "an account that loses its second factor meanwhile")(
			s.beginSession(t.Context(), pendingLogin{account: a, Methods: Methods(Password)}, s.from()))
		wantError(t, errs.Forbidden, "registering")(
			s.Register(t.Context(), "new-"+s.email, password, "X", s.from(), nil))
		s.BreakGlass = nil
		sent := len(s.box.messages)
		s.request(t)
		if len(s.box.messages) != sent {
			t.Error("a reset was mailed")
		}
	})
}

// TestRefresh_EndsPasswordSessions where log-ins with passwords are off: sessions of the provider go
// on, and those of accounts that break glass with a second factor.
func TestRefresh_EndsPasswordSessions(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		s := withProvider(t, enroll(t, d))
		plain := s.register(t, "plain-"+s.email)
		factor := func() Login {
			t.Helper()
			s.now = s.now.Add(time.Minute)
			return must.Value(s.CompleteLogin(t.Context(), s.challenge(t), s.totp(t), s.from()))(t)
		}
		proved, other := factor(), factor()
		pending := s.challenge(t)
		provider := must.Value(s.finish(t, ssotest.User{Subject: "1", Email: "new-" + s.email}))(t)
		s.PasswordsOff, s.BreakGlass = true, []string{plain.Account.Email}
		for name, l := range map[string]Login{"a password": plain, "a password and a factor": proved} {
			at(t, errs.BadCredentials, "refreshToken")(s.Refresh(t.Context(), l.RefreshToken))
			s.works(t, name, l, false)
		}
		s.now = s.now.Add(time.Minute)
		wantError(t, errs.BadCredentials, "a challenge that began before")(
			s.CompleteLogin(t.Context(), pending, s.totp(t), s.from()))
		must.Value(s.Refresh(t.Context(), provider.RefreshToken))(t)
		s.BreakGlass = []string{s.email}
		must.Value(s.Refresh(t.Context(), other.RefreshToken))(t)
	})
}

// TestFinishSSO_TakesUnverifiedAddress from an account that could have verified it. That account
// remains, with an address that receives no mail.
func TestFinishSSO_TakesUnverifiedAddress(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		squatter := must.Value(s.Login(t.Context(), s.email, password, s.from()))(t)
		s.request(t)
		sent := len(s.box.messages)
		reset := s.box.last(t, sent)
		ada := ssotest.User{Subject: "1", Email: s.email}
		s.SSO.Registers = false
		if l := must.Value(s.finish(t, ada))(t); l.Challenge == nil {
			t.Error("a login that may create no account takes the address")
		}
		s.SSO.Registers = true
		l := must.Value(s.finish(t, ada))(t)
		if l.Token == "" || l.Account.ID == squatter.Account.ID || l.Account.Email != s.email {
			t.Fatalf("the login is %+v", l)
		}
		at(t, errs.BadCredentials, "token")(s.ResetPassword(t.Context(), reset, newPassword, Proof{}, s.from()))
		wantError(t, errs.BadCredentials, "the squatter's password")(s.Login(t.Context(), s.email, password, s.from()))
		me := must.Value(s.as(t, squatter.Token))(t)
		email, isVerified, err := s.Emails(t.Context(), me)
		if err != nil || isVerified || email == s.email || receivesMail(email) {
			t.Errorf("the account has %s: %v", email, err)
		}
		must.Value(s.Login(t.Context(), email, password, s.from()))(t)
		must.NoError(t, s.RequestVerification(t.Context(), me, email))
		if len(s.box.messages) != sent {
			t.Errorf("mail was sent: %+v", s.box.messages[sent:])
		}
		if again := must.Value(s.finish(t, ada))(t); again.Account.ID != l.Account.ID {
			t.Errorf("the identity has %+v then", again.Account)
		}
		wantError(t, errs.EmailTaken, "taking it back")(
			s.Register(t.Context(), s.email, password, "X", s.from(), nil))
	})
}

// TestFinishSSO_KeepsAddress of an account that has verified it, is disabled, or could not verify it.
func TestFinishSSO_KeepsAddress(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		ada := ssotest.User{Subject: "1", Email: s.email}
		sender := s.Mail
		s.Mail = nil
		if l := must.Value(s.finish(t, ada))(t); l.Challenge == nil {
			t.Error("the address of an account that could not verify it is taken")
		}
		s.Mail = sender
		_, _, err := s.SetDisabled(t.Context(), s.email, true)
		must.NoError(t, err)
		wantError(t, errs.BadCredentials, "the address of a disabled account")(s.finish(t, ada))
		_, _, err = s.SetDisabled(t.Context(), s.email, false)
		must.NoError(t, err)
		a := must.Value(s.find(t.Context(), s.email))(t)
		must.NoError(t, s.RequestVerification(t.Context(), Actor{AccountID: a.ID}, s.email))
		must.Value(s.VerifyEmail(t.Context(), s.box.last(t, len(s.box.messages))))(t)
		if l := must.Value(s.finish(t, ada))(t); l.Challenge == nil {
			t.Error("a verified address is taken")
		}
	})
}

// TestProof_IsLogInAtProvider: an account without a password, or that may not use it, enrolls an app and
// changes its address by a fresh log-in at the provider.
func TestProof_IsLogInAtProvider(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		s.Sealed = secrets.Box{Key: []byte(strings.Repeat("k", 32))}
		l := must.Value(s.finish(t, ssotest.User{Subject: "1", Email: "new-" + s.email}))(t)
		me := must.Value(s.as(t, l.Token))(t)
		expect := func(what string, want ...errs.Kind) {
			t.Helper()
			_, enrolled := s.EnrollTOTP(t.Context(), me, Proof{}, s.address)
			_, changed := s.Update(t.Context(), me, nil, new("newer-"+s.email), Proof{}, s.address)
			for _, err := range []error{enrolled, changed} {
				if len(want) == 0 && err != nil || len(want) > 0 && !errs.Is(err, want[0]) {
					t.Errorf("%s: %v, want %s", what, err, want)
				}
			}
		}
		expect("no password")
		_, err := s.updateAccountOf(t, me.AccountID, must.Value(s.Passwords.Hash(t.Context(), password, ""))(t))
		must.NoError(t, err)
		expect("an account with a password", errs.InvalidInput)
		s.PasswordsOff = true
		expect("passwords are off")
		s.now = s.now.Add(recent + time.Second)
		expect("an old log-in", errs.BadCredentials)
	})
}

// updateAccountOf sets the password of an account.
func (s *signOn) updateAccountOf(t *testing.T, accountID, hash string) (a *Account, err error) {
	t.Helper()
	err = s.DB.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) error {
		a, err = s.updateAccount(ctx, tx, accountID, "password_hash = ?", hash)
		return err
	})
	return a, err
}

// TestCompleteLogin_EndsWithSession: a challenge does not outlive the session that it begins, and
// connects no account with a provider that the operator has removed meanwhile.
func TestCompleteLogin_EndsWithSession(t *testing.T) {
	eachSignOn(t, func(t *testing.T, s *signOn) {
		must.Value(s.VerifyEmail(t.Context(), s.box.last(t, 1)))(t)
		s.SSO.SessionTTL = challengeTTL / 2
		complete := func(wait time.Duration, provider *SSO) {
			t.Helper()
			l := must.Value(s.finish(t, ssotest.User{Subject: "1", Email: s.email}))(t)
			s.now, s.SSO = s.now.Add(wait), provider
			at(t, errs.Expired, "challenge")(s.CompleteLogin(t.Context(), l.Challenge.Token, with(password), s.from()))
		}
		complete(s.SSO.SessionTTL, s.SSO)
		complete(0, nil)
	})
}
