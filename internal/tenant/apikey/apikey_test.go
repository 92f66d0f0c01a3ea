package apikey

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

var wantError = errstest.Want

// bundle is a store with two workspaces of different owners.
type bundle struct {
	*Store
	spaces       *workspace.Store
	now          time.Time
	mine, theirs workspace.Membership
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{spaces: workspacetest.Store(d), now: dbtest.Noon}
	b.Store = &Store{DB: d, Now: func() time.Time { return b.now }}
	b.mine, b.theirs = workspacetest.New(t, d, "mine"), workspacetest.New(t, d, "theirs")
	return b
}

// eachDatabase runs a test in parallel with others, on both databases.
func eachDatabase(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, setup(t, d))
	})
}

func (b *bundle) key(t *testing.T, m workspace.Membership, scopes ...workspace.Permission) (*Key, string) {
	t.Helper()
	k, secret, err := b.Create(t.Context(), m, NewKey{Name: "CI", Scopes: scopes})
	must.NoError(t, err)
	return k, secret
}

// used returns the actor that the secret authenticates.
func (b *bundle) used(t *testing.T, secret string) account.Actor {
	t.Helper()
	k := must.Value(b.Authenticate(t.Context(), secret))(t)
	return account.Actor{Key: k}
}

// events are the actions in the audit log of the workspace mine, oldest first.
func (b *bundle) events(t *testing.T) (actions []audit.Action) {
	t.Helper()
	must.NoError(t, b.DB.NewSelect().Model((*audit.Event)(nil)).Column("action").Where("workspace_id = ?", b.mine.ID()).
		Order("id").Scan(db.AsSystem(t.Context()), &actions))
	return actions
}

func TestKey_AllowsItsScopes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		mine, foreign := b.mine, b.theirs
		k, secret := b.key(t, mine, workspace.WriteLinks, workspace.ReadStats, workspace.WriteLinks)
		if !strings.HasPrefix(secret, k.Prefix) || len(secret)-len(k.Prefix) < 18 ||
			k.Scopes != "LINKS_WRITE STATS_READ" {
			t.Errorf("%+v of %q", k, secret)
		}
		a := b.used(t, secret)
		m := workspacetest.Require(t, b.DB, a, mine.ID())
		if m.AccountID() != "" || m.ActorID() != k.ID || m.Role() != workspace.Editor || m.Slug() != "mine" {
			t.Errorf("%+v", m)
		}
		wanttest.Equal(t, []workspace.Permission{workspace.ReadLinks, workspace.WriteLinks, workspace.CreateLinks,
			workspace.ReadStats}, m.Permissions(), "permissions")
		_, unknown := b.spaces.Require(t.Context(), a, id.New(id.Workspace))
		if _, err := b.spaces.Require(t.Context(), a, foreign.ID()); !errs.Is(err, errs.NotFound) ||
			err.Error() != unknown.Error() {
			t.Errorf("another workspace: %v", err)
		}
		p, err := b.spaces.List(t.Context(), a, false, page.Request{Size: 10})
		if err != nil || len(p.Items) != 1 || p.Items[0].ID() != mine.ID() {
			t.Errorf("workspaces: %+v, %v", p.Items, err)
		}
	})
}

// TestKey_CannotManageMembersOrKeys: with every scope.
func TestKey_CannotManageMembersOrKeys(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.spaces.Limits = ratelimit.Limiter{Off: true}
		mine := b.mine
		eve := workspacetest.Join(t, b.DB, mine.ID(), workspace.Viewer).AccountID()
		i, _, err := b.spaces.Invite(t.Context(), mine, "x@example.com", workspace.Viewer)
		must.NoError(t, err)
		var all []workspace.Permission
		for _, r := range workspace.Rules {
			if r.Keys {
				all = append(all, r.Permission)
			}
		}
		k, secret := b.key(t, mine, all...)
		m := workspacetest.Require(t, b.DB, b.used(t, secret), mine.ID())
		before := b.events(t)
		for name, do := range map[string]func() error{
			"create a key": func() error {
				_, _, err := b.Create(t.Context(), m, NewKey{Name: "n", Scopes: all})
				return err
			},
			"revoke itself": func() error { _, err := b.Revoke(t.Context(), m, k.ID); return err },
			"list keys":     func() error { return errstest.Of(b.Rows().List(t.Context(), m, page.Request{Size: 1})) },
			"invite": func() error {
				_, _, err := b.spaces.Invite(t.Context(), m, "y@example.com", workspace.Viewer)
				return err
			},
			"revoke invitations": func() error { return errstest.Of(b.spaces.RevokeInvitation(t.Context(), m, i.ID)) },
			"list invitations": func() error {
				return errstest.Of(b.spaces.Invitations().List(t.Context(), m, page.Request{Size: 1}))
			},
			"change roles": func() error {
				return errstest.Of(b.spaces.UpdateRole(t.Context(), m, eve, workspace.Editor))
			},
			"remove members": func() error { return b.spaces.RemoveMember(t.Context(), m, eve) },
			"remove no user": func() error { return b.spaces.RemoveMember(t.Context(), m, "") },
			"hand over":      func() error { _, err := b.spaces.TransferOwnership(t.Context(), m, eve); return err },
			"change settings": func() error {
				return errstest.Of(b.spaces.Update(t.Context(), m, workspace.Change{Name: new("x")}))
			},
			"delete": func() error { _, err := b.spaces.Delete(t.Context(), m); return err },
		} {
			if err := do(); !errs.Is(err, errs.Forbidden) && !(name == "remove no user" && err != nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
		wanttest.Equal(t, before, b.events(t), "events")
		must.Value(b.spaces.Members(t.Context(), m, page.Request{Size: 1}))(t) // seeing members
	})
}

func TestKey_RefusesBadTokens(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		m := b.mine
		end := dbtest.Noon.Add(time.Hour)
		_, brief, err := b.Create(t.Context(), m,
			NewKey{Name: "brief", Scopes: []workspace.Permission{workspace.ReadLinks}, ExpiresAt: &end})
		must.NoError(t, err)
		k, secret := b.key(t, m, workspace.ReadLinks)
		b.used(t, brief)
		for range 2 {
			if revoked, err := b.Revoke(t.Context(), m, k.ID); err != nil || !revoked.RevokedAt.Equal(dbtest.Noon) {
				t.Errorf("revoking: %+v, %v", revoked, err)
			}
		}
		b.now = end
		for name, bad := range map[string]string{
			"revoked": secret, "expired": brief, "the prefix": k.Prefix, "made up": "lfk_x", "none": "",
			"in lower case": strings.ToLower(secret),
			"cut":           secret[:len(secret)-1], "longer": secret + "A", "SQL": "lfk_' OR true --",
			"NUL": "lfk_\x00",
		} {
			wantError(t, errs.Unauthenticated, name)(b.Authenticate(t.Context(), bad))
		}
		for name, in := range map[string]NewKey{
			"no name": {Scopes: []workspace.Permission{workspace.ReadLinks}}, "no scope": {Name: "n"},
			"no key's": {Name: "n", Scopes: []workspace.Permission{workspace.ReadLinks, workspace.WriteMembers}},
			"made up":  {Name: "n", Scopes: []workspace.Permission{"EVERYTHING"}},
			"over":     {Name: "n", Scopes: []workspace.Permission{workspace.ReadLinks}, ExpiresAt: &b.now},
		} {
			wantError(t, errs.InvalidInput, name)(b.Create(t.Context(), m, in))
		}
		foreign := b.theirs
		theirs, _ := b.key(t, foreign, workspace.ReadLinks)
		for _, keyID := range []string{theirs.ID, id.New(id.Key), "", "' OR true --"} {
			wantError(t, errs.NotFound, "revoking %q", keyID)(b.Revoke(t.Context(), m, keyID))
		}
		must.Value(b.Revoke(t.Context(), foreign, theirs.ID))(t)
	})
}

// No stored value authenticates.
func TestKey_SecretIsNotStored(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	k, secret := b.key(t, b.mine, workspace.ReadLinks)
	var row Key
	must.NoError(t, b.DB.NewSelect().Model(&row).Where("id = ?", k.ID).Scan(t.Context()))
	if strings.Contains(string(row.Hash), secret) || len(row.Hash) != 32 || len(row.Prefix) >= len(secret)-17 {
		t.Errorf("kept: %+v", row)
	}
}

// TestKey_LastUseIsRecordedOnceAMinute: else each request would cost a write.
func TestKey_LastUseIsRecordedOnceAMinute(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		m := b.mine
		_, secret := b.key(t, m, workspace.ReadLinks)
		last := func() time.Duration {
			p, err := b.Rows().List(t.Context(), m, page.Request{Size: 1})
			if err != nil || p.Items[0].LastUsedAt == nil {
				return -1
			}
			return p.Items[0].LastUsedAt.Sub(dbtest.Noon)
		}
		if last() != -1 {
			t.Error("a new key was used")
		}
		for _, step := range []struct{ at, want time.Duration }{
			{0, 0}, {59 * time.Second, 0}, {time.Minute, time.Minute}, {time.Hour, time.Hour},
		} {
			b.now = dbtest.Noon.Add(step.at)
			b.used(t, secret)
			if got := last(); got != step.want {
				t.Errorf("used at %s: last used at %s, want %s", step.at, got, step.want)
			}
		}
	})
}

// TestCreate_RefusesFormerMembers checks that a former member cannot create a key, even if the
// member was removed during the request.
func TestCreate_RefusesFormerMembers(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		admin := workspacetest.Join(t, b.DB, b.mine.ID(), workspace.Admin)
		must.Value(b.spaces.UpdateRole(t.Context(), b.mine, admin.AccountID(), workspace.Editor))(t)
		in := NewKey{Name: "n", Scopes: []workspace.Permission{workspace.ReadLinks}}
		wantError(t, errs.Forbidden, "an admin who was demoted")(b.Create(t.Context(), admin, in))
		must.NoError(t, b.spaces.RemoveMember(t.Context(), b.mine, admin.AccountID()))
		wantError(t, errs.NotFound, "an admin who was removed")(b.Create(t.Context(), admin, in))
		if n, err := b.DB.NewSelect().Model((*Key)(nil)).Count(db.AsSystem(t.Context())); err != nil || n != 0 {
			t.Errorf("%d keys: %v", n, err)
		}
	})
}

func TestStore_ExportsKeysOfTheirCreator(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		k, _ := b.key(t, b.mine, workspace.ReadLinks)
		b.key(t, b.theirs, workspace.ReadLinks)
		keys, err := b.Export(t.Context(), b.mine.AccountID())
		if err != nil || len(keys) != 1 || keys[0].ID != k.ID {
			t.Errorf("%+v, %v", keys, err)
		}
		for _, accountID := range []string{"", id.New(id.Account), "' OR true --"} {
			if keys, err := b.Export(t.Context(), accountID); err != nil || len(keys) > 0 {
				t.Errorf("%q: %+v, %v", accountID, keys, err)
			}
		}
	})
}

func TestStore_PurgesOneWorkspace(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.key(t, b.mine, workspace.ReadLinks)
		kept, _ := b.key(t, b.theirs, workspace.ReadLinks)
		must.NoError(t, b.Rows().Purge(db.AsSystem(t.Context()), b.mine.ID()))
		var ids []string
		err := b.DB.NewSelect().Model((*Key)(nil)).Column("id").Scan(db.AsSystem(t.Context()), &ids)
		if diff := cmp.Diff([]string{kept.ID}, ids); diff != "" || err != nil {
			t.Errorf("keys (-want +got): %v\n%s", err, diff)
		}
	})
}

// TestCreate_BoundsActiveKeys: concurrent calls create as many keys as are allowed; revoked and
// expired ones do not count.
func TestCreate_BoundsActiveKeys(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		b.MaxKeys = 3
		create := func(expires *time.Time) (*Key, error) {
			k, _, err := b.Create(t.Context(), b.mine,
				NewKey{Name: "CI", Scopes: []workspace.Permission{workspace.ReadLinks}, ExpiresAt: expires})
			return k, err
		}
		must.Value(create(new(b.now.Add(time.Hour))))(t)
		got := errstest.AtOnce(20, func(int) error { _, err := create(nil); return err })
		wanttest.Equal(t, map[string]int{"OK": 2, "QUOTA_EXCEEDED": 18}, got, "answers")
		if _, _, err := b.Create(t.Context(), b.theirs, NewKey{Name: "CI",
			Scopes: []workspace.Permission{workspace.ReadLinks}}); err != nil {
			t.Errorf("a key of another workspace: %v", err)
		}
		wantError(t, errs.QuotaExceeded, "a fourth key")(create(nil))
		b.now = b.now.Add(2 * time.Hour) // an expired key does not count
		must.Value(create(nil))(t)
	})
}

// TestRotate_KeepsTheOldSecretUntilItEnds: of the secrets that a key has had, the newest one is
// valid, and the one before it until the given time.
func TestRotate_KeepsTheOldSecretUntilItEnds(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		k, first := b.key(t, b.mine, workspace.ReadLinks)
		valid := func(secret string) bool {
			got, err := b.Authenticate(t.Context(), secret)
			if err != nil && !errs.Is(err, errs.Unauthenticated) {
				t.Fatal(err)
			}
			return err == nil && got.ID == k.ID
		}
		rotate := func(ends *time.Time) string {
			rotated, secret, err := b.Rotate(t.Context(), b.mine, k.ID, ends)
			must.NoError(t, err)
			if !strings.HasPrefix(secret, rotated.Prefix) || rotated.ID != k.ID ||
				!strings.HasPrefix(secret, account.KeyPrefix) {
				t.Errorf("%+v of %q", rotated, secret)
			}
			return secret
		}
		second := rotate(new(b.now.Add(time.Hour)))
		if !valid(first) || !valid(second) {
			t.Error("a secret is not valid while both are")
		}
		b.now = b.now.Add(time.Hour)
		if valid(first) || !valid(second) {
			t.Error("the old secret outlives its end")
		}
		third := rotate(new(b.now.Add(maxOverlap)))
		fourth := rotate(new(b.now.Add(maxOverlap)))
		if valid(second) || !valid(third) || !valid(fourth) {
			t.Error("a third secret is valid")
		}
		fifth := rotate(nil)
		if valid(fourth) || !valid(fifth) {
			t.Error("the old secret does not end at once")
		}
		for name, ends := range map[string]time.Time{"now": b.now, "the past": b.now.Add(-time.Hour),
			"later": b.now.Add(maxOverlap + time.Second)} {
			wantError(t, errs.InvalidInput, name)(b.Rotate(t.Context(), b.mine, k.ID, &ends))
		}
		wantError(t, errs.NotFound, "rotating another workspace's key")(b.Rotate(t.Context(), b.theirs, k.ID, nil))
		sixth := rotate(new(b.now.Add(time.Hour)))
		must.Value(b.Revoke(t.Context(), b.mine, k.ID))(t)
		if valid(fifth) || valid(sixth) {
			t.Error("a revoked key is valid")
		}
		wantError(t, errs.Expired, "rotating a revoked key")(b.Rotate(t.Context(), b.mine, k.ID, nil))
		ending, _, err := b.Create(t.Context(), b.mine,
			NewKey{Name: "CI", Scopes: []workspace.Permission{workspace.ReadLinks},
				ExpiresAt: new(b.now.Add(time.Minute))})
		must.NoError(t, err)
		b.now = b.now.Add(time.Minute)
		wantError(t, errs.Expired, "rotating an expired key")(b.Rotate(t.Context(), b.mine, ending.ID, nil))
	})
}

// TestKeys_AreRestrictedToFolders: the folders of a key exist in its workspace, and its scopes are
// not about more.
func TestKeys_AreRestrictedToFolders(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		folders := &folder.Store{DB: d, Now: b.Now}
		mine := must.Value(folders.Create(t.Context(), b.mine, "mine"))(t).ID
		theirs := must.Value(folders.Create(t.Context(), b.theirs, "theirs"))(t).ID
		reads := []workspace.Permission{workspace.ReadLinks}
		for name, c := range map[string]struct {
			scopes []workspace.Permission
			ids    []string
			kind   errs.Kind
			field  string
		}{
			"another workspace's": {reads, []string{mine, theirs}, errs.NotFound, "folderIds"},
			"unknown":             {reads, []string{id.New(id.Folder)}, errs.NotFound, "folderIds"},
			"no id":               {reads, []string{"\x00"}, errs.NotFound, "folderIds"},
			"too many":            {reads, make([]string, maxFolders+1), errs.InvalidInput, "folderIds"},
			"a publishable key": {[]workspace.Permission{workspace.CreateLinks}, []string{mine, id.New(id.Folder)},
				errs.InvalidInput, "folderIds"},
			"a scope about more": {[]workspace.Permission{workspace.ReadAudit}, []string{mine}, errs.InvalidInput,
				"scopes.0"},
		} {
			_, _, err := b.Create(t.Context(), b.mine, NewKey{Name: "CI", Scopes: c.scopes, FolderIDs: c.ids})
			if e := errs.From(err); err == nil || e.Kind != c.kind || strings.Join(e.Field, ".") != c.field {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, secret, err := b.Create(t.Context(), b.mine,
			NewKey{Name: "CI", Scopes: reads, FolderIDs: []string{mine, mine}})
		must.NoError(t, err)
		if got := b.used(t, secret).Key.Folders; !slices.Equal(got, []string{mine}) {
			t.Errorf("the key has the folders %v", got)
		}
		if _, secret = b.key(t, b.mine, workspace.ReadLinks); b.used(t, secret).Key.Folders != nil {
			t.Error("a key without folders has some")
		}
	})
}
