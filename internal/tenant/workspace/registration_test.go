package workspace

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// TestPresented_IsAcceptedByRegistering registers with tokens of invitations.
func TestPresented_IsAcceptedByRegistering(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, _ := inviting(t, d)
		team, gone := b.create(t, b.ada, "team"), b.create(t, b.ada, "gone")
		accounts := &account.Store{
			DB: d, Registration: account.Invited, Passwords: account.NewUserPasswords(bcrypt.MinCost),
			SessionTTL: time.Hour,
			Tokens:     account.Tokens{Secrets: [][]byte{make([]byte, 32)}, TTL: time.Hour},
			Limits:     ratelimit.Limiter{Off: true},
			Now:        b.Now,
		}
		register := func(email, token string) (string, error) {
			l, err := accounts.Register(t.Context(), email, "a long password", "New", account.Client{},
				b.Presented(token))
			if err != nil {
				return "", err
			}
			return l.Account.ID, nil
		}
		_, token := b.invite(t, team, "New@Example.com", Editor)
		wantError(t, errs.Forbidden, "another address")(register("other@example.com", token))
		accountID := must.Value(register(" NEW@example.com", token))(t)
		m := must.Value(b.Require(t.Context(), account.Actor{AccountID: accountID}, team.ID()))(t)
		if m.Role() != Editor || m.isUnverified {
			t.Errorf("joined as %+v", m)
		}
		_, ofDeleted := b.invite(t, gone, "late@example.com", Viewer)
		invited := func(want bool) {
			t.Helper()
			if got := must.Value(b.IsInvited(t.Context(), "late@example.com"))(t); got != want {
				t.Errorf("invited: %t, want %t", got, want)
			}
		}
		invited(true)
		must.Value(b.Delete(t.Context(), gone))(t)
		invited(false)
		_, ofDisabled := b.invite(t, team, "late@example.com", Viewer)
		invited(true)
		for name, c := range map[string]struct {
			token string
			want  errs.Kind
			email string
		}{
			"used":                   {token, errs.NotFound, "new@example.com"},
			"unknown":                {"invite_x", errs.NotFound, "late@example.com"},
			"empty":                  {"", errs.NotFound, "late@example.com"},
			"of a deleted workspace": {ofDeleted, errs.NotFound, "late@example.com"},
		} {
			if _, err := register(c.email, c.token); !errs.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		disable := func(to any) {
			must.Value(d.NewUpdate().Table("accounts").Set("disabled_at = ?", to).Where("id = ?", b.ada.AccountID).
				Exec(t.Context()))(t)
		}
		disable(noon)
		invited(false)
		wantError(t, errs.NotFound, "sent by a disabled account")(register("late@example.com", ofDisabled))
		wantError(t, errs.NotFound, "accepted from a disabled account")(b.Accept(t.Context(), b.eve, ofDisabled))
		wantError(t, errs.Unauthenticated, "created by a disabled account")(
			b.Create(t.Context(), b.ada, "By a disabled account", "disabled"))
		disable(nil)
		accounts.Now = func() time.Time { return noon.Add(invitationLife) }
		b.Now = accounts.Now
		wantError(t, errs.Expired, "expired")(register("late@example.com", ofDisabled))
	})
}

// TestMembership_OfUnverifiedAccountReads, where mail is sent, and has all permissions after its
// verification.
func TestMembership_OfUnverifiedAccountReads(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, mail *postbox) {
		m := b.create(t, b.ada, "team")
		all := m.Permissions()
		mail.configured = true
		for _, verified := range []bool{false, true} {
			if verified {
				must.Value(b.DB.NewUpdate().Table("accounts").Set("email_verified_at = ?", noon).
					Where("id = ?", b.ada.AccountID).Exec(t.Context()))(t)
			}
			m := must.Value(b.Require(t.Context(), b.ada, m.ID()))(t)
			again := must.Value(b.Presume(t.Context(), b.ada, m.ID(), ReadLinks))(t)
			want := slices.DeleteFunc(slices.Clone(all), func(p Permission) bool { return !verified && !p.reads() })
			if got := m.Permissions(); !slices.Equal(got, want) || !slices.Equal(again.Permissions(), want) ||
				again.IsPresumed() != (verified && b.DB.Kind == db.Postgres) {
				t.Errorf("verified %t: %v, want %v", verified, got, want)
			}
			_, created := b.Create(t.Context(), b.ada, "Second", "second")
			_, _, invited := b.Invite(t.Context(), m, "x@example.com", Viewer)
			changed := ChangeAs(must.Value(m.Enter(t.Context(), ReadLinks))(t), b.DB, m, WriteKeys,
				func(_ context.Context, _ bun.Tx) error { return nil })
			for _, err := range []error{created, invited, changed} {
				if verified != (err == nil) ||
					err != nil && (!errs.Is(err, errs.Forbidden) || errs.From(err).Message != errUnverified().Error()) {
					t.Errorf("verified %t: %v", verified, err)
				}
			}
		}
	})
}

func TestOperator_AddsOwners(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, deleted := b.create(t, b.ada, "team"), b.create(t, b.ada, "gone")
		must.Value(b.Delete(t.Context(), deleted))(t)
		for slug, want := range map[string]errs.Kind{m.ID(): 0, "unknown": errs.NotFound, "gone": errs.NotFound,
			id.PublicWorkspace: errs.NotFound} {
			err := b.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				return b.AdminAddOwner(ctx, tx, slug, b.eve.AccountID)
			})
			if want == 0 && err != nil || want != 0 && !errs.Is(err, want) {
				t.Errorf("%s: %v", slug, err)
			}
		}
		if role := must.Value(b.Require(t.Context(), b.eve, m.ID()))(t).Role(); role != Owner {
			t.Errorf("role %s", role)
		}
	})
}

func TestRecheck_SeesTheCurrentRole(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		m := b.create(t, b.ada, "team")
		_, token := b.invite(t, m, "eve@example.com", Editor)
		must.Value(b.Accept(t.Context(), b.eve, token))(t)
		eve := must.Value(b.Require(t.Context(), b.eve, m.ID()))(t)
		ctx := must.Value(eve.Enter(t.Context(), ReadLinks))(t)
		key := Membership{row: m.row, key: &account.Key{Scopes: []string{string(WriteLinks)}}}
		recheck := func() (refused error) {
			must.NoError(t, b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				lookup, refusals := Recheck(b.DB, tx, WriteLinks, []Membership{Public(), m, eve, eve, key})
				err := lookup.Run(ctx)
				all := refusals()
				if refused = all[2]; err == nil &&
					(all[0] != nil || all[4] != nil || !errors.Is(all[3], all[2]) && all[3].Error() != all[2].Error()) {
					t.Errorf("%v", all)
				}
				return err
			}))
			return refused
		}
		must.NoError(t, recheck())
		must.Value(b.UpdateRole(t.Context(), m, b.eve.AccountID, Viewer))(t)
		wantError(t, errs.Forbidden, "as a viewer")(recheck())
		must.NoError(t, b.RemoveMember(t.Context(), m, b.eve.AccountID))
		wantError(t, errs.NotFound, "after the removal")(recheck())
	})
}

// TestRefresh_SeesTheRequiredFactor that a membership which was read before did not need.
func TestRefresh_SeesTheRequiredFactor(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		strong, weak := b.ada, b.ada
		weak.SessionID, strong.HasSecondFactor = id.New(id.Session), true
		team := b.create(t, strong, "team").ID()
		m := must.Value(b.Require(t.Context(), weak, team))(t)
		must.Value(b.Update(t.Context(), must.Value(b.Require(t.Context(), strong, team))(t),
			Change{RequireSecondFactor: new(true)}))(t)
		must.NoError(t, b.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) (err error) {
			m, err = Refresh(ctx, b.DB, tx, m)
			return err
		}))
		wantError(t, errs.Forbidden, "without a second factor")(m.Enter(t.Context(), CreateLinks))
		wantError(t, errs.Forbidden, "removing another member without a second factor")(
			b.RemoveMember(t.Context(), m, b.eve.AccountID))
		// may leave, and is the last one
		wantError(t, errs.LastOwner, "leaving without a second factor")(b.RemoveMember(t.Context(), m, weak.AccountID))
	})
}
