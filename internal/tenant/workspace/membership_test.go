package workspace

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

func join(t *testing.T, d *db.DB, workspaceID string, a account.Actor, r Role) {
	t.Helper()
	m := Member{WorkspaceID: workspaceID, AccountID: a.AccountID, Role: r, CreatedAt: noon}
	must.Value(d.NewInsert().Model(&m).Exec(db.AsSystem(t.Context())))(t)
}

// TestRequire_HidesForeignWorkspace: a foreign workspace and a random ID have the same response.
func TestRequire_HidesForeignWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w := b.create(t, b.ada, "promo")
		b.create(t, b.eve, "other")
		_, unknown := b.Require(t.Context(), b.eve, id.New(id.Workspace))
		if !errs.Is(unknown, errs.NotFound) || errs.From(unknown).Public() == "" {
			t.Fatalf("an unknown workspace: %v", unknown)
		}
		for name, c := range map[string]struct {
			actor       account.Actor
			workspaceID string
		}{
			"foreign":         {b.eve, w.ID()},
			"anonymous":       {account.Actor{}, w.ID()},
			"an unknown user": {account.Actor{AccountID: id.New(id.Account)}, w.ID()},
			"empty":           {b.ada, ""},
			"a slug":          {b.ada, "promo"},
			"in upper case":   {b.ada, strings.ToUpper(w.ID())},
			"an account's":    {b.ada, b.ada.AccountID},
			"NUL":             {b.ada, w.ID() + "\x00"},
			"long":            {b.ada, "ws_" + strings.Repeat("0", 10_000)},
		} {
			m, err := b.Require(t.Context(), c.actor, c.workspaceID)
			errstest.Same(t, unknown, err, "%s", name)
			if m != (Membership{}) {
				t.Errorf("%s: got %+v", name, m)
			}
		}
	})
}

func TestMembership_FollowsPermissions(t *testing.T) {
	t.Parallel()
	roles := []Role{Owner, Admin, Editor, Viewer, "", "OWNED", "owner"}
	allowed := map[Permission]string{ // in the order of the roles, and then to API keys that have the scope
		ReadLinks:       "yes yes yes yes no no no yes",
		WriteLinks:      "yes yes yes no no no no yes",
		CreateLinks:     "yes yes yes no no no no yes",
		ReadStats:       "yes yes yes yes no no no yes",
		ReadMembers:     "yes yes yes yes no no no yes",
		WriteMembers:    "yes yes no no no no no no",
		WriteOwners:     "yes no no no no no no no",
		WriteKeys:       "yes yes no no no no no no",
		ReadDomains:     "yes yes yes yes no no no yes",
		WriteDomains:    "yes yes no no no no no yes",
		ReadAudit:       "yes yes no no no no no yes",
		WriteSettings:   "yes yes no no no no no no",
		DeleteWorkspace: "yes no no no no no no no",
		WriteWebhooks:   "yes yes no no no no no yes",
	}
	if len(Rules) != len(allowed) {
		t.Errorf("%d rules, and %d are looked at", len(Rules), len(allowed))
	}
	answer := func(m Membership, p Permission) string {
		_, err := m.Enter(t.Context(), p)
		if err != nil && !errs.Is(err, errs.Forbidden) || m.May(p) != (err == nil) {
			t.Errorf("%s: %v, may: %t", p, err, m.May(p))
		}
		return map[bool]string{true: "yes", false: "no"}[err == nil]
	}
	for p, want := range allowed {
		var got []string
		for _, r := range roles {
			got = append(got, answer(Membership{row: &Workspace{}, role: r}, p))
		}
		// A key has the permissions of its scopes, with any role.
		got = append(got, answer(Membership{row: &Workspace{}, role: Owner,
			key: &account.Key{Scopes: []string{string(p)}}}, p))
		wanttest.Equal(t, want, strings.Join(got, " "), "%s is allowed to %v, and to keys", p, roles)
		for _, scopes := range [][]string{nil, {"OWNER"}, {strings.ToLower(string(p))}, {string(p) + " "}} {
			if answer(Membership{row: &Workspace{}, role: Owner, key: &account.Key{Scopes: scopes}}, p) == "yes" {
				t.Errorf("a key with the scopes %q may do %s", scopes, p)
			}
		}
		if answer(Membership{role: Owner}, p) == "yes" {
			t.Errorf("a membership of nothing may do %s", p)
		}
	}
}

// TestMembership_Responsible: the keys of an account are its own.
func TestMembership_Responsible(t *testing.T) {
	t.Parallel()
	in := &Workspace{ID: "ws_1"}
	for want, m := range map[string]Membership{
		"usr_1": {row: in, accountID: "usr_1"},
		"usr_2": {row: in, key: &account.Key{ID: "key_1", CreatedBy: "usr_2"}},
		"ws_1":  {row: in, key: &account.Key{ID: "key_2"}},
	} {
		if got := m.Responsible(); got != want {
			t.Errorf("%s is responsible, want %s", got, want)
		}
	}
}
