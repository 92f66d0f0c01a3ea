package account

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// invitation is one of an address; it is accepted once.
type invitation struct {
	email string
	used  bool
}

// Check implements Invitation.
func (i *invitation) Check(_ context.Context, email string) error {
	if email != i.email {
		return errs.New(errs.Forbidden, "It is for another address.")
	}
	return nil
}

// Accept implements Invitation.
func (i *invitation) Accept(_ context.Context, _ bun.Tx, a *Account) error {
	if i.used {
		return errs.New(errs.NotFound, "It has been accepted.").At("token")
	}
	i.used = true
	return i.Check(context.Background(), a.Email)
}

func TestRegister_IsRestricted(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.register(t, "taken@example.com")
		invited := func(email string) Invitation { return &invitation{email: email} }
		for name, c := range map[string]struct {
			registration Registration
			email        string
			invitation   Invitation
			want         errs.Kind
			field        string
		}{
			"open":                     {Open, "open@example.com", nil, 0, ""},
			"open, with an invitation": {Open, "OPEN-invited@Example.com", invited("open-invited@example.com"), 0, ""},
			"open, invited elsewhere":  {Open, "else@example.com", invited("x@example.com"), errs.Forbidden, ""},
			"invited, a stranger":      {Invited, "stranger@example.com", nil, errs.Forbidden, ""},
			"invited, a taken address": {Invited, "taken@example.com", nil, errs.Forbidden, ""},
			"invited, no address":      {Invited, "x", nil, errs.Forbidden, ""},
			"invited":                  {Invited, "Invited@example.com", invited("invited@example.com"), 0, ""},
			"invited elsewhere, taken": {Invited, "taken@example.com", invited("x@example.com"), errs.Forbidden, ""},
			"invited, with an account": {Invited, "taken@example.com", invited("taken@example.com"), errs.EmailTaken,
				"email"},
			"invited, used meanwhile": {Invited, "u@example.com", &invitation{"u@example.com", true}, errs.NotFound,
				"invitationToken"},
			"closed":                     {Closed, "closed@example.com", nil, errs.Forbidden, ""},
			"closed, with an invitation": {Closed, "c@example.com", invited("c@example.com"), errs.Forbidden, ""},
		} {
			b.Registration = c.registration
			l, err := b.Store.Register(t.Context(), c.email, password, "Ada", b.from(), c.invitation)
			if c.want == 0 {
				if err != nil || l.Account.Email != strings.ToLower(c.email) {
					t.Errorf("%s: %+v, %v", name, l.Account, err)
				}
				continue
			}
			if !errs.Is(err, c.want) || strings.Join(errs.From(err).Field, ".") != c.field {
				t.Errorf("%s: %v at %v", name, err, errs.From(err).Field)
			}
			if a := must.Value(b.find(t.Context(), c.email))(t); a.ID != "" && a.Email != "taken@example.com" {
				t.Errorf("%s: the account exists", name)
			}
		}
	})
}

func TestOperator_CreatesAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Registration, b.PublicURL = Closed, "https://sho.rt"
		a, link, err := b.AdminCreate(t.Context(), " Ada@Example.com ", "", nothing)
		if err != nil || a.Email != "ada@example.com" || a.Name != "Ada" ||
			!link.ExpiresAt.Equal(noon.Add(24*time.Hour)) {
			t.Fatalf("%+v, %+v, %v", a, link, err)
		}
		wantError(t, errs.BadCredentials, "without a password")(b.Login(t.Context(), a.Email, "", b.from()))
		token, isPage := strings.CutPrefix(link.URL, "https://sho.rt/password#")
		if !isPage {
			t.Errorf("link %s", link.URL)
		}
		must.NoError(t, b.RequestPasswordReset(t.Context(), a.Email, b.from())) // by anybody
		must.Value(b.ResetPassword(t.Context(), token, password, Proof{}, b.from()))(t)
		must.Value(b.Login(t.Context(), a.Email, password, b.from()))(t)
		at(t, errs.EmailTaken, "email")(b.AdminCreate(t.Context(), a.Email, "", nothing))
		at(t, errs.InvalidInput, "email")(b.AdminCreate(t.Context(), "no address", "", nothing))
		_, _, err = b.AdminCreate(t.Context(), "eve@example.com", "", func(context.Context, bun.Tx, string) error {
			return errs.New(errs.NotFound, "There is no such workspace.")
		})
		wantError(t, errs.NotFound, "in an unknown workspace")(err)
		wantError(t, errs.NotFound, "a reset of no account")(b.AdminReset(t.Context(), "eve@example.com"))

		_, first, err := b.AdminReset(t.Context(), "ADA@example.com")
		must.NoError(t, err)
		_, second, err := b.AdminReset(t.Context(), a.Email)
		must.NoError(t, err)
		must.Value(b.Login(t.Context(), a.Email, password, b.from()))(t) // until a link is used
		b.now = noon.Add(24*time.Hour - time.Second)
		for _, c := range []struct {
			link PasswordLink
			ok   bool
		}{{first, false}, {second, true}, {second, false}} {
			_, err := b.ResetPassword(t.Context(), c.link.URL[len("https://sho.rt/password#"):], newPassword, Proof{},
				b.from())
			if c.ok != (err == nil) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		must.Value(b.AdminDelete(t.Context(), a.Email, nothing))(t)
		wantError(t, errs.NotFound, "deleted again")(b.AdminDelete(t.Context(), a.Email, nothing))
	})
}

// TestOperator_DisablesAccounts: each way in is closed, and looks as for an unknown address.
func TestOperator_DisablesAccounts(t *testing.T) {
	eachMailed(t, func(t *testing.T, b *bundle, box *mailbox, mine Login) {
		verification := box.last(t, 1)
		must.NoError(t, b.RequestPasswordReset(t.Context(), b.email, b.from()))
		reset := box.last(t, 2)
		stale := must.Value(b.byEmail(t.Context(), b.email))(t)
		me := must.Value(b.as(t, mine.Token))(t)
		if _, n, err := b.SetDisabled(t.Context(), b.email, false); err != nil || n != 0 {
			t.Errorf("enabling an account that is not disabled ends %d sessions: %v", n, err)
		}
		b.works(t, "the session", mine, true)
		a, sessions, err := b.SetDisabled(t.Context(), strings.ToUpper(b.email), true)
		if err != nil || sessions != 1 || a.DisabledAt == nil {
			t.Fatalf("%+v, %d sessions, %v", a, sessions, err)
		}
		b.works(t, "the session", mine, false)
		_, unknown := b.Login(t.Context(), "nobody-"+b.email, password, b.from())
		for name, call := range map[string]func() error{
			"log-in": func() error { _, err := b.Login(t.Context(), b.email, password, b.from()); return err },
			"log-in that was begun": func() error {
				_, err := b.beginSession(t.Context(), pendingLogin{account: stale, Methods: Methods(Password)},
					b.from())
				return err
			},
			"refresh": func() error { _, err := b.Refresh(t.Context(), mine.RefreshToken); return err },
			"reset that was mailed": func() error {
				return errstest.Of(b.ResetPassword(t.Context(), reset, newPassword, Proof{}, b.from()))
			},
			"verification": func() error { _, err := b.VerifyEmail(t.Context(), verification); return err },
			"check of the password": func() error {
				err := b.RequireProof(t.Context(), me, with(password), b.address)
				return err
			},
			"reset by the operator": func() error { _, _, err := b.AdminReset(t.Context(), b.email); return err },
			"request of the actor":  func() error { return b.RequestVerification(t.Context(), me, b.email) },
		} {
			err := call()
			if err == nil || name == "log-in" && err.Error() != unknown.Error() {
				t.Errorf("%s: %v", name, err)
			}
		}
		must.NoError(t, b.RequestPasswordReset(t.Context(), b.email, b.from()))
		box.last(t, 2) // no further message
		if listed := must.Value(b.AdminList(t.Context(), b.email, "", 1))(t); listed[0].DisabledAt == nil {
			t.Errorf("%+v", listed)
		}
		_, _, err = b.SetDisabled(t.Context(), b.email, true) // again
		must.NoError(t, err)
		a, _, err = b.SetDisabled(t.Context(), b.email, false)
		if err != nil || a.DisabledAt != nil {
			t.Errorf("%+v, %v", a, err)
		}
		b.works(t, "the session of before", mine, false)
		must.Value(b.Login(t.Context(), b.email, password, b.from()))(t)
		wantError(t, errs.NotFound, "an unknown address")(b.SetDisabled(t.Context(), "nobody@example.com", true))
	})
}

// TestOperator_DisablesDuringLogins: of log-ins and refreshes at the same time, no session remains.
func TestOperator_DisablesDuringLogins(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine := b.register(t, b.email)
		a := must.Value(b.byEmail(t.Context(), b.email))(t)
		atOnce(9, func(i int) error {
			var err error
			switch {
			case i == 4:
				_, _, err = b.SetDisabled(t.Context(), b.email, true)
			case i%2 == 0:
				_, err = b.beginSession(t.Context(), pendingLogin{account: a, Methods: Methods(Password)}, b.from())
			default:
				_, err = b.Refresh(t.Context(), mine.RefreshToken)
			}
			return err
		})
		if n := must.Value(b.active(a.ID).Count(t.Context()))(t); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}
