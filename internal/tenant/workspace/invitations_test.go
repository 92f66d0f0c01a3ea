package workspace

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// postbox stores sent mail.
type postbox struct {
	configured bool
	mu         sync.Mutex
	sent       []string
}

// Configured implements Mailer.
func (p *postbox) Configured() bool { return p.configured }

// Send implements Mailer.
func (p *postbox) Send(_ context.Context, to, subject, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, to+"\n"+subject+"\n"+text)
}

// inviting is a bundle that knows people and has a postbox.
func inviting(t *testing.T, d *db.DB) (*bundle, *postbox) {
	t.Helper()
	b, p := setup(t, d), &postbox{}
	b.Accounts, b.Mail = &account.Store{DB: d, Now: b.Now}, p
	return b, p
}

// eachInviting runs a test as each does, with invitations by email.
func eachInviting(t *testing.T, test func(t *testing.T, b *bundle, p *postbox)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, p := inviting(t, d)
		test(t, b, p)
	})
}

func (b *bundle) invite(t *testing.T, m Membership, email string, role Role) (*Invitation, string) {
	t.Helper()
	i, token, err := b.Invite(t.Context(), m, email, role)
	must.NoError(t, err)
	return i, token
}

func (b *bundle) email(t *testing.T, a account.Actor) string {
	t.Helper()
	email, _, err := b.Accounts.Emails(t.Context(), a)
	must.NoError(t, err)
	return email
}

func TestInvitation_IsAcceptedOnce(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, mail *postbox) {
		m := b.create(t, b.ada, "team")
		i, token := b.invite(t, m, " Eve@Example.COM ", Editor)
		if i.Email != "eve@example.com" || !i.ExpiresAt.Equal(noon.Add(7*24*time.Hour)) {
			t.Errorf("%+v", i)
		}
		if len(mail.sent) != 1 || !strings.HasPrefix(mail.sent[0], "eve@example.com\n") ||
			!strings.Contains(mail.sent[0], token) {
			t.Errorf("sent: %q", mail.sent)
		}
		joined, err := b.Accept(t.Context(), b.eve, token)
		if err != nil || joined.ID() != m.ID() || joined.Role() != Editor {
			t.Fatalf("%+v, %v", joined, err)
		}
		other := person(t, b.DB)
		wantError(t, errs.NotFound, "accepted again")(b.Accept(t.Context(), other, token))
		_, second := b.invite(t, m, "another@example.com", Owner)
		wantError(t, errs.AlreadyMember, "accepted by a member")(b.Accept(t.Context(), b.eve, second))
		if got := b.roles(t, m.ID())[b.eve.AccountID]; got != Editor {
			t.Errorf("the member is %s now", got)
		}
		must.Value(b.Accept(t.Context(), other, second))(t) // what a member could not use is lost
		want := []string{
			fmt.Sprintf(`%s MEMBER_INVITED %s {"role":"EDITOR"}`, b.ada.AccountID, i.ID),
			fmt.Sprintf(`%s MEMBER_JOINED %s {"invitation":"%s","role":"EDITOR"}`, b.eve.AccountID, b.eve.AccountID,
				i.ID),
		}
		wanttest.Equal(t, want, b.events(t, m.ID())[:2], "events")
	})
}

// TestInvitation_IsAcceptedOnceConcurrently has many people come with one token at once.
func TestInvitation_IsAcceptedOnceConcurrently(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		m := b.create(t, b.ada, "team")
		for round := range 5 {
			_, token := b.invite(t, m, fmt.Sprintf("invited-%d@example.com", round), Viewer)
			people := make([]account.Actor, 20)
			for i := range people {
				people[i] = person(t, b.DB)
			}
			got := errstest.AtOnce(len(people), func(i int) error {
				return errstest.Of(b.Accept(t.Context(), people[i], token))
			})
			wanttest.Equal(t, map[string]int{"OK": 1, "NOT_FOUND": 19}, got, "answers")
			if n := len(b.roles(t, m.ID())); n != round+2 {
				t.Errorf("%d members after %d invitations", n, round+1)
			}
		}
	})
}

func TestInvitation_RefusesBadTokens(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		now := noon
		b.Now = func() time.Time { return now }
		m := b.create(t, b.ada, "team")
		_, replaced := b.invite(t, m, "x@example.com", Editor)
		_, late := b.invite(t, m, "x@example.com", Viewer)
		i, revoked := b.invite(t, m, "y@example.com", Viewer)
		must.Value(b.RevokeInvitation(t.Context(), m, i.ID))(t)
		for name, token := range map[string]string{"replaced": replaced, "revoked": revoked, "none": "",
			"made up": "invite_x", "SQL": "' OR true --", "NUL": "\x00"} {
			wantError(t, errs.NotFound, name)(b.Accept(t.Context(), b.eve, token))
		}
		wantError(t, errs.NotFound, "revoked again")(b.RevokeInvitation(t.Context(), m, i.ID))
		p, err := b.Invitations().List(t.Context(), m, page.Request{Size: 10})
		if err != nil || len(p.Items) != 1 || p.Items[0].Role != Viewer {
			t.Errorf("invitations: %+v, %v", p.Items, err)
		}
		now = now.Add(7 * 24 * time.Hour)
		wantError(t, errs.Expired, "late")(b.Accept(t.Context(), b.eve, late))
		if p, err := b.Invitations().List(t.Context(), m, page.Request{Size: 10}); err != nil || len(p.Items) != 0 {
			t.Errorf("late invitations are listed: %+v, %v", p.Items, err)
		}
		_, token := b.invite(t, m, "z@example.com", Viewer)
		must.Value(b.Delete(t.Context(), m))(t)
		wantError(t, errs.NotFound, "to a deleted workspace")(b.Accept(t.Context(), b.eve, token))
		if roles := b.roles(t, m.ID()); len(roles) != 1 {
			t.Errorf("members: %v", roles)
		}
	})
}

// TestInvitation_RequiresVerifiedAddress: another user cannot use an intercepted token.
func TestInvitation_RequiresVerifiedAddress(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, mail *postbox) {
		mail.configured = true
		verify := func(a account.Actor) {
			t.Helper()
			must.Value(b.DB.NewRaw("UPDATE accounts SET email_verified_at = ? WHERE id = ?", noon, a.AccountID).
				Exec(t.Context()))(t)
		}
		verify(b.ada)
		m := b.create(t, b.ada, "team")
		_, token := b.invite(t, m, b.email(t, b.eve), Viewer)
		wantError(t, errs.Forbidden, "by another user")(b.Accept(t.Context(), person(t, b.DB), token))
		wantError(t, errs.Forbidden, "unverified")(b.Accept(t.Context(), b.eve, token))
		verify(b.eve)
		must.Value(b.Accept(t.Context(), b.eve, token))(t) // verified
	})
}

func TestInvitation_FollowsPermissions(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		m, by := b.team(t, "team")
		for actor, most := range map[Role]map[Role]bool{
			Owner: {Owner: true, Admin: true, Viewer: true}, Admin: {Owner: false, Admin: true, Viewer: true},
			Editor: {Owner: false, Admin: false, Viewer: false}, Viewer: {Owner: false, Admin: false, Viewer: false},
		} {
			for role, allowed := range most {
				_, _, err := b.Invite(t.Context(), b.as(t, by[actor], m.ID()),
					fmt.Sprintf("%s-%s@example.com", actor, role), role)
				if allowed != (err == nil) || !allowed && !errs.Is(err, errs.Forbidden) {
					t.Errorf("%s invites a %s: %v", actor, role, err)
				}
			}
		}
		wantError(t, errs.InvalidInput, "no address")(b.Invite(t.Context(), m, "nobody", Viewer))
		wantError(t, errs.AlreadyMember, "a member")(
			b.Invite(t.Context(), m, strings.ToUpper(b.email(t, by[Viewer])), Viewer))
		foreign := b.create(t, b.eve, "foreign")
		i, _ := b.invite(t, foreign, "x@example.com", Viewer)
		for _, invitationID := range []string{i.ID, id.New(id.Invitation), "", "' OR true --"} {
			wantError(t, errs.NotFound, "revoking %q", invitationID)(b.RevokeInvitation(t.Context(), m, invitationID))
		}
		wantError(t, errs.Forbidden, "by an editor")(b.RevokeInvitation(t.Context(), b.as(t, by[Editor], m.ID()), i.ID))
	})
}

// TestInvitation_EndsWithItsSender: an admin who is shown the door has no token left that
// opens it again.
func TestInvitation_EndsWithItsSender(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		m, by := b.team(t, "team")
		second := person(t, b.DB)
		join(t, b.DB, m.ID(), second, Admin)
		_, removed := b.invite(t, b.as(t, by[Admin], m.ID()), "a@example.com", Admin)
		_, demoted := b.invite(t, b.as(t, second, m.ID()), "b@example.com", Admin)
		_, kept := b.invite(t, m, "c@example.com", Viewer)
		must.NoError(t, b.RemoveMember(t.Context(), m, by[Admin].AccountID))
		must.Value(b.UpdateRole(t.Context(), m, second.AccountID, Editor))(t)
		for name, token := range map[string]string{"removed": removed, "demoted": demoted} {
			wantError(t, errs.NotFound, "of an admin who was %s", name)(b.Accept(t.Context(), by[Admin], token))
		}
		must.Value(b.Accept(t.Context(), b.eve, kept))(t) // the owner's
	})
}

// TestInvitation_RefusesDeletedAccount: an account may be deleted while it accepts an invitation.
func TestInvitation_RefusesDeletedAccount(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		m := b.create(t, b.ada, "team")
		_, token := b.invite(t, m, "x@example.com", Viewer)
		b.Accounts = leaving{b}
		wantError(t, errs.Unauthenticated, "accepted")(b.Accept(t.Context(), b.eve, token))
		if roles := b.roles(t, m.ID()); len(roles) != 1 {
			t.Errorf("members: %v", roles)
		}
	})
}

// leaving deletes the account when its address is requested.
type leaving struct{ *bundle }

// Emails implements Accounts.
func (l leaving) Emails(ctx context.Context, a account.Actor) (string, bool, error) {
	_, err := l.DB.NewRaw("UPDATE accounts SET deleted_at = ? WHERE id = ?", noon, a.AccountID).Exec(ctx)
	return "", false, err
}

// TestInvite_BoundsAccountAndRecipient: an account cannot send more by using many workspaces, and a
// stranger receives few invitations.
func TestInvite_BoundsAccountAndRecipient(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		b := setup(t, dbtest.MigratedSQLite(t))
		b.Limits = ratelimit.New(k, slog.New(slog.DiscardHandler), time.Now)
		sent, refused := 0, 0
		for i := range 60 {
			m := b.create(t, b.ada, fmt.Sprint("mine-", i))
			switch _, _, err := b.Invite(t.Context(), m, fmt.Sprintf("stranger-%d@example.com", i), Viewer); {
			case err == nil:
				sent++
			case errs.Is(err, errs.RateLimited) && errs.From(err).RetryAfter > 0:
				refused++
			default:
				t.Fatal(err)
			}
		}
		if sent != 50 || refused != 10 {
			t.Errorf("%d invitations were sent and %d refused, want 50 and 10", sent, refused)
		}
		received := 0
		for i := range 8 {
			one := b.create(t, person(t, b.DB), fmt.Sprint("other-", i))
			if _, _, err := b.Invite(t.Context(), one, "victim@example.com", Viewer); err == nil {
				received++
			}
		}
		if received != 5 {
			t.Errorf("a stranger received %d invitations, want 5", received)
		}
	})
}
