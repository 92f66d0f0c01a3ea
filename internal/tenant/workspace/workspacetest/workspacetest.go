// Package workspacetest creates workspaces and members for tests. It is not for tests of package
// workspace itself, which cannot import it.
package workspacetest

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Store returns a store of workspaces that stands still at dbtest.Noon.
func Store(d *db.DB) *workspace.Store {
	return &workspace.Store{DB: d, Now: func() time.Time { return dbtest.Noon }}
}

// Actor inserts an account and returns it as an actor.
func Actor(t testing.TB, d *db.DB) account.Actor {
	t.Helper()
	return account.Actor{AccountID: dbtest.Account(t, d)}
}

// New creates a workspace and the account that owns it.
func New(t testing.TB, d *db.DB, slug string) workspace.Membership {
	t.Helper()
	return Of(t, d, Actor(t, d), slug)
}

// Of creates a workspace that the actor owns.
func Of(t testing.TB, d *db.DB, owner account.Actor, slug string) workspace.Membership {
	t.Helper()
	m, err := Store(d).Create(t.Context(), owner, "Workspace "+slug, slug)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Join makes a new account a member.
func Join(t testing.TB, d *db.DB, workspaceID string, role workspace.Role) workspace.Membership {
	t.Helper()
	a := Actor(t, d)
	_, err := d.NewInsert().
		Model(&workspace.Member{WorkspaceID: workspaceID, AccountID: a.AccountID, Role: role, CreatedAt: dbtest.Noon}).
		Exec(db.AsSystem(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return Require(t, d, a, workspaceID)
}

// Key returns the membership of an API key with the scopes. It inserts no key.
func Key(t testing.TB, d *db.DB, workspaceID string, scopes ...string) workspace.Membership {
	t.Helper()
	return Require(t, d, account.Actor{Key: &account.Key{ID: id.New(id.Key), WorkspaceID: workspaceID, Scopes: scopes}},
		workspaceID)
}

// Fenced returns the membership of an API key that is restricted to folders and has all scopes that
// such a key can have. It inserts no key.
func Fenced(t testing.TB, d *db.DB, workspaceID string, folders ...string) workspace.Membership {
	t.Helper()
	scopes := []string{
		string(workspace.ReadLinks), string(workspace.WriteLinks), string(workspace.ReadStats),
		string(workspace.ReadDomains),
	}
	key := &account.Key{ID: id.New(id.Key), WorkspaceID: workspaceID, Scopes: scopes, Folders: folders}
	return Require(t, d, account.Actor{Key: key}, workspaceID)
}

// Require returns the actor's membership.
func Require(t testing.TB, d *db.DB, a account.Actor, workspaceID string) workspace.Membership {
	t.Helper()
	m, err := Store(d).Require(t.Context(), a, workspaceID)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
