package workspace

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// as is the actor's membership.
func (b *bundle) as(t *testing.T, a account.Actor, workspaceID string) Membership {
	t.Helper()
	return must.Value(b.Require(t.Context(), a, workspaceID))(t)
}

// roles are the workspace's members with their roles.
func (b *bundle) roles(t *testing.T, workspaceID string) map[string]Role {
	t.Helper()
	var members []Member
	must.NoError(t, b.DB.NewSelect().Model(&members).Where("workspace_id = ?", workspaceID).
		Scan(db.AsSystem(t.Context())))
	all := map[string]Role{}
	for _, m := range members {
		all[m.AccountID] = m.Role
	}
	return all
}

// events returns the audit log, oldest first, without the creation of the workspace.
func (b *bundle) events(t *testing.T, workspaceID string) []string {
	t.Helper()
	var rows []audit.Event
	must.NoError(t, b.DB.NewSelect().Model(&rows).Where("workspace_id = ?", workspaceID).
		Where("action <> ?", audit.WorkspaceCreated).
		Order("id").Scan(db.AsSystem(t.Context())))
	all := []string{}
	for _, e := range rows {
		all = append(all, fmt.Sprintf("%s %s %s %s", e.ActorID, e.Action, e.TargetID, e.Details))
	}
	return all
}

// team is a workspace with a member in each role.
func (b *bundle) team(t *testing.T, slug string) (m Membership, by map[Role]account.Actor) {
	t.Helper()
	m = b.create(t, b.ada, slug)
	by = map[Role]account.Actor{Owner: b.ada}
	for _, r := range []Role{Admin, Editor, Viewer} {
		by[r] = person(t, b.DB)
		join(t, b.DB, m.ID(), by[r], r)
	}
	return m, by
}

// TestChangeRole_FollowsPermissions covers all combinations of actor, member and new role.
func TestChangeRole_FollowsPermissions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, by := b.team(t, "team")
		second := person(t, b.DB) // another owner, so that none is the last
		join(t, b.DB, m.ID(), second, Owner)
		all := []Role{Owner, Admin, Editor, Viewer}
		for _, actor := range all {
			for _, before := range all {
				for _, after := range all {
					target := person(t, b.DB)
					join(t, b.DB, m.ID(), target, before)
					_, err := b.UpdateRole(t.Context(), b.as(t, by[actor], m.ID()), target.AccountID, after)
					owners := before == Owner || after == Owner
					allowed := actor == Owner || actor == Admin && !owners
					if allowed != (err == nil) || !allowed && !errs.Is(err, errs.Forbidden) {
						t.Errorf("%s makes a %s a %s: %v", actor, before, after, err)
					}
					want := before
					if allowed {
						want = after
					}
					if got := b.roles(t, m.ID())[target.AccountID]; got != want {
						t.Errorf("%s made a %s a %s: is %s", actor, before, after, got)
					}
				}
				target := person(t, b.DB)
				join(t, b.DB, m.ID(), target, before)
				err := b.RemoveMember(t.Context(), b.as(t, by[actor], m.ID()), target.AccountID)
				if allowed := actor == Owner || actor == Admin && before != Owner; allowed != (err == nil) ||
					!allowed && !errs.Is(err, errs.Forbidden) {
					t.Errorf("%s removes a %s: %v", actor, before, err)
				}
			}
		}
	})
}

func TestLeave_RemovesMembership(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, by := b.team(t, "team")
		for _, r := range []Role{Admin, Editor, Viewer} {
			must.NoError(t, b.RemoveMember(t.Context(), b.as(t, by[r], m.ID()), by[r].AccountID))
			wantError(t, errs.NotFound, "a %s who has left", r)(b.Require(t.Context(), by[r], m.ID()))
		}
		wantError(t, errs.LastOwner, "the last owner leaves")(b.RemoveMember(t.Context(), m, b.ada.AccountID))
		wantError(t, errs.LastOwner, "the last owner steps down")(b.UpdateRole(t.Context(), m, b.ada.AccountID, Admin))
		for _, stranger := range []string{b.eve.AccountID, id.New(id.Account), "", "' OR true --"} {
			wantError(t, errs.NotFound, "removing %q", stranger)(b.RemoveMember(t.Context(), m, stranger))
			wantError(t, errs.NotFound, "changing %q", stranger)(b.UpdateRole(t.Context(), m, stranger, Viewer))
		}
		wantError(t, errs.InvalidInput, "a role made up")(b.UpdateRole(t.Context(), m, b.ada.AccountID, "BOSS"))
	})
}

func TestTransferOwnership_ChangesRoles(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, by := b.team(t, "team")
		wantError(t, errs.Forbidden, "by an admin")(
			b.TransferOwnership(t.Context(), b.as(t, by[Admin], m.ID()), by[Editor].AccountID))
		wantError(t, errs.InvalidInput, "to oneself")(b.TransferOwnership(t.Context(), m, b.ada.AccountID))
		wantError(t, errs.NotFound, "to a stranger")(b.TransferOwnership(t.Context(), m, b.eve.AccountID))
		owner, err := b.TransferOwnership(t.Context(), m, by[Viewer].AccountID)
		if err != nil || owner.Role != Owner || owner.AccountID != by[Viewer].AccountID {
			t.Fatalf("%+v, %v", owner, err)
		}
		want := map[string]Role{b.ada.AccountID: Admin, by[Admin].AccountID: Admin, by[Editor].AccountID: Editor,
			by[Viewer].AccountID: Owner}
		wanttest.Equal(t, want, b.roles(t, m.ID()), "roles")
		wanttest.Equal(t, []string{b.ada.AccountID + " OWNERSHIP_TRANSFERRED " + by[Viewer].AccountID + " {}"},
			b.events(t, m.ID()), "events")
		// An earlier membership has the permissions of the current role.
		wantError(t, errs.Forbidden, "the old owner changes the new one")(
			b.UpdateRole(t.Context(), m, by[Viewer].AccountID, Viewer))
	})
}

// TestMembers_LastOwnerStays has two owners do away with each other, and with themselves, at once,
// in every way there is. On PostgreSQL each has a connection of its own.
func TestMembers_LastOwnerStays(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ways := map[string]func(ctx context.Context, m Membership, accountID string) error{
			"remove": func(ctx context.Context, m Membership, accountID string) error {
				return b.RemoveMember(ctx, m, accountID)
			},
			"demote": func(ctx context.Context, m Membership, accountID string) error {
				return errstest.Of(b.UpdateRole(ctx, m, accountID, Viewer))
			},
			"hand over": func(ctx context.Context, m Membership, accountID string) error {
				return errstest.Of(b.TransferOwnership(ctx, m, accountID))
			},
		}
		n := 0
		for first, one := range ways {
			for second, other := range ways {
				for _, eachOther := range []bool{true, false} {
					for range 3 {
						n++
						m := b.create(t, b.ada, fmt.Sprintf("race-%d", n))
						eve := person(t, b.DB)
						join(t, b.DB, m.ID(), eve, Owner)
						ada, its := b.as(t, b.ada, m.ID()), b.as(t, eve, m.ID())
						targets := [2]string{b.ada.AccountID, eve.AccountID}
						if eachOther {
							targets[0], targets[1] = targets[1], targets[0]
						}
						var all sync.WaitGroup
						gate := make(chan struct{})
						all.Go(func() { <-gate; _ = one(t.Context(), ada, targets[0]) })
						all.Go(func() { <-gate; _ = other(t.Context(), its, targets[1]) })
						close(gate)
						all.Wait()
						owners := 0
						for _, r := range b.roles(t, m.ID()) {
							if r == Owner {
								owners++
							}
						}
						if owners == 0 {
							t.Errorf("%s and %s, each other %t: no owner is left", first, second, eachOther)
						}
					}
				}
			}
		}
	})
}

// TestLeaveAll_RemovesEveryMembership covers the memberships of a deleted account.
func TestLeaveAll_RemovesEveryMembership(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		own, other := b.create(t, b.ada, "own"), b.create(t, b.eve, "other")
		join(t, b.DB, other.ID(), b.ada, Admin)
		if _, _, err := b.Invite(t.Context(), b.as(t, b.ada, other.ID()), "x@example.com", Viewer); err != nil {
			t.Fatal(err)
		}
		err := b.leaveAll(t, b.ada)
		if !errs.Is(err, errs.LastOwner) || len(b.roles(t, other.ID())) != 2 {
			t.Errorf("the last owner of a workspace: %v, and %v", err, b.roles(t, other.ID()))
		}
		must.Value(b.Delete(t.Context(), own))(t)
		must.NoError(t, b.leaveAll(t, b.ada))
		wanttest.Equal(t, map[string]Role{b.eve.AccountID: Owner}, b.roles(t, other.ID()), "members")
		if n, err := b.DB.NewSelect().Model((*Invitation)(nil)).Count(db.AsSystem(t.Context())); err != nil || n != 0 {
			t.Errorf("%d invitations of theirs are left: %v", n, err)
		}
	})
}

func (b *bundle) leaveAll(t *testing.T, a account.Actor) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(db.AsSystem(t.Context()), time.Minute)
	defer cancel()
	return b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return b.LeaveAll(ctx, tx, a.AccountID) })
}

// TestInvitation_OfAnOwnerEndsWithTheRole: who is an owner no longer has no token left that makes
// one.
func TestInvitation_OfAnOwnerEndsWithTheRole(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		for name, stepDown := range map[string]func(m Membership, second account.Actor) error{
			"demoted": func(m Membership, second account.Actor) error {
				return errstest.Of(b.UpdateRole(t.Context(), m, second.AccountID, Admin))
			},
			"handed-over": func(m Membership, second account.Actor) error {
				return errstest.Of(b.TransferOwnership(t.Context(), b.as(t, second, m.ID()), b.ada.AccountID))
			},
		} {
			m, second := b.create(t, b.ada, name), person(t, b.DB)
			join(t, b.DB, m.ID(), second, Owner)
			_, ofAnOwner := b.invite(t, b.as(t, second, m.ID()), "friend@example.com", Owner)
			_, ofAViewer := b.invite(t, b.as(t, second, m.ID()), "other@example.com", Viewer)
			must.NoError(t, stepDown(m, second))
			wantError(t, errs.NotFound, "%s: an owner is made", name)(b.Accept(t.Context(), person(t, b.DB), ofAnOwner))
			must.Value(b.Accept(t.Context(), person(t, b.DB), ofAViewer))(t)
		}
	})
}
