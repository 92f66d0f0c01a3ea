package workspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// given is a membership as the model has it.
type given struct {
	Role   Role
	Source Source
}

// groupsModel has the memberships of one account by workspace.
type groupsModel map[string]given

// logIn is what SyncGroups promises.
func (m groupsModel) logIn(mapping []GroupRole, groups map[string]bool) {
	best := map[string]Role{}
	for _, g := range mapping {
		if m[g.WorkspaceID].Source != Manual && best[g.WorkspaceID] == "" {
			delete(m, g.WorkspaceID)
		}
		if m[g.WorkspaceID].Source != Manual && groups[g.Group] && rank[g.Role] > rank[best[g.WorkspaceID]] {
			best[g.WorkspaceID] = g.Role
		}
	}
	for workspaceID, role := range best {
		m[workspaceID] = given{role, SSO}
	}
}

// change is a manual change with its expected result: members remain members with the role, by
// hand; an empty role removes them.
func (m groupsModel) change(workspaceID string, role Role) {
	if _, isMember := m[workspaceID]; isMember && role != "" {
		m[workspaceID] = given{role, Manual}
	} else {
		delete(m, workspaceID)
	}
}

// syncGroups logs an account in with groups.
func (b *bundle) syncGroups(t *testing.T, accountID string, mapping []GroupRole, groups []string) error {
	t.Helper()
	return b.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return b.SyncGroups(mapping)(ctx, tx, accountID, groups)
	})
}

// given returns the memberships of an account by workspace.
func (b *bundle) given(t *testing.T, a account.Actor) groupsModel {
	t.Helper()
	var members []Member
	must.NoError(t,
		b.DB.NewSelect().Model(&members).Where("account_id = ?", a.AccountID).Scan(db.AsSystem(t.Context())))
	all := groupsModel{}
	for _, m := range members {
		all[m.WorkspaceID] = given{m.Role, m.Source}
	}
	return all
}

// TestSyncGroups_FollowsModel runs random sequences of log-ins, with changing groups and mappings,
// and of manual changes.
func TestSyncGroups_FollowsModel(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		spaces := []Membership{b.create(t, b.ada, "one"), b.create(t, b.ada, "two"), b.create(t, b.ada, "three")}
		for seed := range uint64(200) {
			r, user, model := rand.New(rand.NewPCG(seed, 0)), person(t, b.DB), groupsModel{}
			var done []string
			for range 8 {
				w := spaces[r.IntN(len(spaces))]
				role := []Role{Owner, Admin, Editor, Viewer}[r.IntN(4)]
				switch r.IntN(6) {
				default:
					var mapping []GroupRole
					for range r.IntN(6) {
						mapping = append(mapping,
							GroupRole{string('a' + rune(r.IntN(4))), spaces[r.IntN(len(spaces))].ID(),
								allRoles[1+r.IntN(3)]})
					}
					has := map[string]bool{}
					var groups []string
					for _, group := range []string{"a", "b", "c", "d", "other"}[:r.IntN(6)] {
						has[group], groups = true, append(groups, group)
					}
					must.NoError(t, b.syncGroups(t, user.AccountID, mapping, groups))
					model.logIn(mapping, has)
					done = append(done, fmt.Sprint("log-in ", mapping, groups))
				case 0:
					_, err := b.UpdateRole(t.Context(), w, user.AccountID, role)
					if isMember := model[w.ID()] != (given{}); isMember != (err == nil) {
						t.Fatal(err)
					}
					model.change(w.ID(), role)
					done = append(done, "update "+string(role))
				case 1:
					if err := b.RemoveMember(t.Context(), w, user.AccountID); err != nil &&
						!errs.Is(err, errs.NotFound) {
						t.Fatal(err)
					}
					model.change(w.ID(), "")
					done = append(done, "remove")
				case 2:
					if model[w.ID()] == (given{}) {
						join(t, b.DB, w.ID(), user, role)
						model[w.ID()] = given{role, Manual}
						done = append(done, "join "+string(role))
					}
				}
				if diff := cmp.Diff(model, b.given(t, user)); diff != "" {
					t.Fatalf("seed %d, after %s (-want +got):\n%s", seed, strings.Join(done, "\n"), diff)
				}
			}
		}
	})
}

// TestSyncGroups_WritesEvents: the provider's changes are in the log, without an actor, and
// repeated log-ins are not.
func TestSyncGroups_WritesEvents(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "engines")
		mapping := []GroupRole{{"it", w.ID(), Admin}, {"all", w.ID(), Viewer}}
		eve := b.eve.AccountID
		for _, groups := range [][]string{{"it", "all"}, {"it"}} {
			must.NoError(t, b.syncGroups(t, eve, mapping, groups))
		}
		_, _, err := b.Invite(t.Context(), b.as(t, b.eve, w.ID()), "bob@example.com", Viewer)
		must.NoError(t, err)
		must.NoError(t, b.syncGroups(t, eve, mapping, []string{"all"}))
		if n := must.Value(b.DB.NewSelect().Model((*Invitation)(nil)).Count(db.AsSystem(t.Context())))(t); n != 0 {
			t.Errorf("%d invitations of a member who may not invite any more", n)
		}
		must.NoError(t, b.syncGroups(t, eve, mapping, nil))
		must.NoError(t, b.syncGroups(t, eve, mapping, nil))
		var got []string
		for _, event := range b.events(t, w.ID()) {
			if !strings.Contains(event, "INVIT") {
				got = append(got, event)
			}
		}
		want := []string{
			" MEMBER_JOINED " + eve + ` {"role":"ADMIN","source":"sso"}`,
			" MEMBER_ROLE_UPDATED " + eve + ` {"from":"ADMIN","source":"sso","to":"VIEWER"}`,
			" MEMBER_REMOVED " + eve + ` {"source":"sso"}`,
		}
		wanttest.Equal(t, want, got, "result")
		must.NoError(t, b.syncGroups(t, eve, mapping, []string{"it"}))
		_, _, err = b.Invite(t.Context(), b.as(t, b.eve, w.ID()), "bob@example.com", Viewer)
		must.NoError(t, err)
		must.NoError(t, b.syncGroups(t, eve, mapping, nil))
		if n := must.Value(b.DB.NewSelect().Model((*Invitation)(nil)).Count(db.AsSystem(t.Context())))(t); n != 0 {
			t.Errorf("%d invitations of a member who has left", n)
		}
	})
}

// TestSyncGroups_ManualWins: who became an owner by hand stays one.
func TestSyncGroups_ManualWins(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "engines")
		mapping := []GroupRole{{"it", w.ID(), Editor}}
		bob := person(t, b.DB)
		must.NoError(t, b.syncGroups(t, bob.AccountID, mapping, []string{"it"}))
		must.Value(b.TransferOwnership(t.Context(), w, bob.AccountID))(t)
		must.NoError(t, b.syncGroups(t, bob.AccountID, mapping, nil))
		wanttest.Equal(t, groupsModel{w.ID(): {Owner, Manual}}, b.given(t, bob), "the last owner")
		_, err := b.DB.NewInsert().
			Model(&Member{WorkspaceID: w.ID(), AccountID: person(t, b.DB).AccountID, Role: Owner, Source: SSO,
				CreatedAt: noon}).Exec(db.AsSystem(t.Context()))
		if err == nil {
			t.Error("the database accepts owners of the provider")
		}
	})
}

// TestSyncGroups_SparesOthers: accounts that are disabled do not join, and deleted workspaces stay
// as they are.
func TestSyncGroups_SparesOthers(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w, gone := b.create(t, b.ada, "engines"), b.create(t, b.ada, "gone")
		mapping := []GroupRole{{"it", w.ID(), Editor}, {"it", gone.ID(), Editor}}
		must.NoError(t, b.syncGroups(t, b.eve.AccountID, mapping, []string{"it"}))
		must.Value(b.AdminDelete(t.Context(), "gone"))(t)
		must.NoError(t, b.syncGroups(t, b.eve.AccountID, mapping, nil))
		wanttest.Equal(t, groupsModel{gone.ID(): {Editor, SSO}}, b.given(t, b.eve), "result")
		bob := person(t, b.DB)
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
			"UPDATE accounts SET disabled_at = created_at WHERE id = ?", bob.AccountID))(t)
		if err := b.syncGroups(t, bob.AccountID, mapping, []string{"it"}); !errs.Is(err, errs.Unauthenticated) ||
			len(b.given(t, bob)) != 0 {
			t.Errorf("a disabled account: %v", err)
		}
	})
}

// TestSyncGroups_Concurrent: concurrent log-ins on several nodes and manual changes end in one
// state without an error.
func TestSyncGroups_Concurrent(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, two := b.create(t, b.ada, "one"), b.create(t, b.ada, "two")
		got := errstest.AtOnce(20, func(n int) error {
			mapping := []GroupRole{{"it", one.ID(), Editor}, {"it", two.ID(), Viewer}}
			if n%2 == 0 {
				mapping[0], mapping[1] = mapping[1], mapping[0]
			}
			return b.syncGroups(t, b.eve.AccountID, mapping, []string{"it"})
		})
		wanttest.Equal(t, map[string]int{"OK": 20}, got, "answers")
		wanttest.Equal(t, groupsModel{one.ID(): {Editor, SSO}, two.ID(): {Viewer, SSO}}, b.given(t, b.eve), "result")
		if n := len(b.events(t, one.ID())); n != 1 {
			t.Errorf("%d events of one change", n)
		}
	})
}

// TestResolveGroups_FollowsWorkspace: a slug means the workspace that had it when a start first
// named it.
func TestResolveGroups_FollowsWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "engines")
		mapping := []GroupSlug{{Group: "it", Slug: "engines", Role: "ADMIN"},
			{Group: "all", Slug: "engines", Role: "VIEWER"}}
		expect := func(what, workspaceID string) {
			t.Helper()
			got, err := b.ResolveGroups(t.Context(), mapping)
			want := []GroupRole{{"it", workspaceID, Admin}, {"all", workspaceID, Viewer}}
			must.NoError(t, err)
			wanttest.Equal(t, want, got, "%s", what)
		}
		expect("first start", w.ID())
		renamed := "motors"
		must.Value(b.Update(t.Context(), w, Change{Slug: &renamed}))(t)
		// as ReleaseSlugs does
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), "DELETE FROM slugs WHERE slug = 'engines'"))(t)
		other := b.create(t, b.eve, "engines")
		expect("after a rename", w.ID())
		must.Value(b.ResolveGroups(t.Context(), nil))(t)
		expect("after a start without the slug", other.ID())

		_, err := b.ResolveGroups(t.Context(), append(mapping, GroupSlug{Group: "a", Slug: "unknown", Role: "EDITOR"},
			GroupSlug{Group: "a", Slug: "public", Role: "EDITOR"}))
		if err == nil || strings.Count(err.Error(), "LINKFORGE_SSO_MEMBERSHIPS: no workspace has the slug") != 2 ||
			!strings.Contains(err.Error(), `"unknown"`) {
			t.Errorf("unknown slugs: %v", err)
		}
		must.Value(b.AdminDelete(t.Context(), "engines"))(t)
		expect("a deleted workspace, which may be restored", other.ID())
		b.Now = func() time.Time { return noon.Add(10 * purgeAfter) }
		must.NoError(t, b.Purge(db.AsSystem(t.Context())))
		if _, err := b.ResolveGroups(t.Context(), mapping); err == nil {
			t.Error("a purged workspace has groups")
		}
	})
}

// TestSyncGroups_ComparesLetters, composed or decomposed, in the setting and in the token.
func TestSyncGroups_ComparesLetters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "one")
		const composed, decomposed = "\u00c4rzte", "A\u0308rzte"
		for _, c := range [][2]string{{composed, decomposed}, {decomposed, composed}, {decomposed, decomposed}} {
			user := person(t, b.DB)
			must.NoError(t, b.syncGroups(t, user.AccountID, []GroupRole{{c[0], w.ID(), Editor}}, []string{c[1]}))
			if got := b.given(t, user)[w.ID()]; got != (given{Editor, SSO}) {
				t.Errorf("%+q of the setting, %+q of the token: %+v", c[0], c[1], got)
			}
		}
	})
}

// TestRequire_CountsGroupsOfTheProvider: a membership by a group opens a workspace to sessions that
// came from the provider alone, and a manual one to all.
func TestRequire_CountsGroupsOfTheProvider(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "one")
		user := person(t, b.DB)
		mapping := []GroupRole{{"staff", w.ID(), Admin}}
		must.NoError(t, b.syncGroups(t, user.AccountID, mapping, []string{"staff"}))
		opens := func(name string, methods account.Methods, want bool) {
			t.Helper()
			who := account.Actor{AccountID: user.AccountID, SessionID: "ses_x", Methods: methods}
			m, err := b.Require(t.Context(), who, w.ID())
			if (err == nil) != want || err != nil && !errs.Is(err, errs.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
			presumed, err := b.Presume(t.Context(), who, w.ID(), CreateLinks)
			if (err == nil) != want {
				t.Errorf("%s, presumed: %v", name, err)
			}
			_, listed := must.Value(b.RequireAll(t.Context(), who))(t)[w.ID()]
			_, named := must.Value(b.RequireEach(t.Context(), who, w.ID()))(t)[w.ID()]
			if listed != want || named != want {
				t.Errorf("%s: listed %t, %t", name, listed, named)
			}
			if want {
				for _, one := range []Membership{m, presumed} {
					lookup, refused := Recheck(b.DB, b.DB, CreateLinks, []Membership{one})
					if err := errors.Join(lookup.Run(db.AsSystem(t.Context())), refused()[0]); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
		opens("a log-in at the provider", "SSO", true)
		opens("a connected one", "SSO PASSWORD TOTP", true)
		opens("a password", "PASSWORD", false)
		opens("a password and a factor", "PASSWORD TOTP", false)
		must.Value(b.Require(t.Context(), account.Actor{AccountID: user.AccountID}, w.ID()))(t) // a task of the user

		admin := must.Value(b.Require(t.Context(), b.ada, w.ID()))(t)
		must.Value(b.UpdateRole(t.Context(), admin, user.AccountID, Admin))(t) // makes it manual
		opens("a password, as a manual member", "PASSWORD", true)
		manual := must.Value(b.Presume(t.Context(), account.Actor{AccountID: user.AccountID, SessionID: "ses_x",
			Methods: "PASSWORD"}, w.ID(), CreateLinks))(t)
		must.NoError(t, b.RemoveMember(t.Context(), admin, user.AccountID))
		must.NoError(t, b.syncGroups(t, user.AccountID, mapping, []string{"staff"}))
		lookup, refused := Recheck(b.DB, b.DB, CreateLinks, []Membership{manual})
		must.NoError(t, lookup.Run(db.AsSystem(t.Context())))
		errstest.Want(t, errs.NotFound, "a membership that has become one by a group meanwhile")(refused()[0])
	})
}
