package workspace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

func join(t *testing.T, d *db.DB, workspaceID string, a account.Actor, r Role) {
	t.Helper()
	m := member{WorkspaceID: workspaceID, AccountID: a.AccountID, Role: r, CreatedAt: noon}
	if _, err := d.NewInsert().Model(&m).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRequireMembers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		w := b.create(t, b.ada, "promo")
		b.create(t, b.eve, "other")
		for _, r := range []Role{Admin, Editor, Viewer} {
			a := person(t, d)
			join(t, d, w.ID(), a, r)
			m, err := b.Require(t.Context(), a, w.ID())
			if err != nil {
				t.Fatal(err)
			}
			want := shapeOf(w)
			want.Role = r
			if diff := cmp.Diff(want, shapeOf(m)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r, diff)
			}
		}
	})
}

// TestAForeignWorkspaceIsNone: nothing that a stranger is told differs from what he hears of an id made up.
func TestAForeignWorkspaceIsNone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
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
			"foreign":           {b.eve, w.ID()},
			"nobody asks":       {account.Actor{}, w.ID()},
			"an unknown person": {account.Actor{AccountID: id.New(id.Account)}, w.ID()},
			"SQL asks":          {account.Actor{AccountID: "' OR 1=1 --"}, w.ID()},
			"empty":             {b.ada, ""},
			"a slug":            {b.ada, "promo"},
			"in upper case":     {b.ada, strings.ToUpper(w.ID())},
			"and a space":       {b.ada, w.ID() + " "},
			"an account's":      {b.ada, b.ada.AccountID},
			"SQL":               {b.ada, "' OR 1=1 --"},
			"NUL":               {b.ada, w.ID() + "\x00"},
			"not UTF-8":         {b.ada, "ws_\xff\xfe"},
			"long":              {b.ada, "ws_" + strings.Repeat("0", 10_000)},
		} {
			m, err := b.Require(t.Context(), c.actor, c.workspaceID)
			if diff := cmp.Diff(said(unknown), said(err)); diff != "" || m != (Membership{}) {
				t.Errorf("%s: %+v, and is told (-unknown +this):\n%s", name, m, diff)
			}
		}
	})
}

// said is everything that a caller is told.
func said(err error) errs.Error {
	e := errs.From(err)
	return errs.Error{Kind: e.Kind, Message: e.Public(), Field: e.Field, RetryAfter: e.RetryAfter}
}

func TestNeed(t *testing.T) {
	t.Parallel()
	roles := []Role{Owner, Admin, Editor, Viewer}
	allowed := map[Role]string{ // in the order of the roles
		Owner:   "yes yes yes yes",
		Admin:   "no yes yes yes",
		Editor:  "no no yes yes",
		Viewer:  "no no no yes",
		"":      "no no no no",
		"OWNED": "no no no no",
		"owner": "no no no no",
	}
	for r, want := range allowed {
		var got []string
		for _, needed := range roles {
			answer, err := "yes", Membership{role: r}.Need(needed)
			if err != nil {
				answer = "no"
			}
			if err != nil && !errs.Is(err, errs.Forbidden) || r.Allows(needed) != (err == nil) {
				t.Errorf("%q needs %s: %v, allows %t", r, needed, err, r.Allows(needed))
			}
			got = append(got, answer)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q may do what needs %v (-want +got):\n%s", r, roles, diff)
		}
	}
}
