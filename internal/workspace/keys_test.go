package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
)

func (b *bundle) key(t *testing.T, m Membership, scopes ...Permission) (*Key, string) {
	t.Helper()
	k, secret, err := b.CreateKey(t.Context(), m, NewKey{Name: "CI", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

// used is the actor that the secret proves.
func (b *bundle) used(t *testing.T, secret string) account.Actor {
	t.Helper()
	k, err := b.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return account.Actor{Key: k}
}

func TestKeysDoWhatTheirScopesSay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		mine, foreign := b.create(t, b.ada, "mine"), b.create(t, b.eve, "foreign")
		k, secret := b.key(t, mine, WriteLinks, ReadStats, WriteLinks)
		if !strings.HasPrefix(secret, k.Prefix) || len(secret)-len(k.Prefix) < 18 || k.Scopes != "LINKS_WRITE STATS_READ" {
			t.Errorf("%+v of %q", k, secret)
		}
		a := b.used(t, secret)
		m := b.as(t, a, mine.ID())
		if m.AccountID() != "" || m.ActorID() != k.ID || m.Role() != Editor || m.Slug() != "mine" {
			t.Errorf("%+v", m)
		}
		if diff := cmp.Diff([]Permission{ReadLinks, WriteLinks, ReadStats}, m.Permissions()); diff != "" {
			t.Errorf("permissions (-want +got):\n%s", diff)
		}
		_, unknown := b.Require(t.Context(), a, id.New(id.Workspace))
		if _, err := b.Require(t.Context(), a, foreign.ID()); !errs.Is(err, errs.NotFound) || err.Error() != unknown.Error() {
			t.Errorf("another workspace: %v", err)
		}
		p, err := b.List(t.Context(), a, false, page.Request{Size: 10})
		if err != nil || len(p.Items) != 1 || p.Items[0].ID() != mine.ID() {
			t.Errorf("workspaces: %+v, %v", p.Items, err)
		}
	})
}

// TestKeysTouchNoMembersAndNoKeys: with every scope that there is.
func TestKeysTouchNoMembersAndNoKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, _ := inviting(t, d)
		mine := b.create(t, b.ada, "mine")
		join(t, d, mine.ID(), b.eve, Viewer)
		i, _ := b.invite(t, mine, "x@example.com", Viewer)
		var all []Permission
		for _, r := range Rules {
			if r.Keys {
				all = append(all, r.Permission)
			}
		}
		k, secret := b.key(t, mine, all...)
		m := b.as(t, b.used(t, secret), mine.ID())
		before := b.events(t, mine.ID())
		for name, do := range map[string]func() error{
			"create a key":       func() error { _, _, err := b.CreateKey(t.Context(), m, NewKey{Name: "n", Scopes: all}); return err },
			"revoke itself":      func() error { _, err := b.RevokeKey(t.Context(), m, k.ID); return err },
			"list keys":          func() error { _, err := b.Keys(t.Context(), m, page.Request{Size: 1}); return err },
			"invite":             func() error { _, _, err := b.Invite(t.Context(), m, "y@example.com", Viewer); return err },
			"revoke invitations": func() error { _, err := b.RevokeInvitation(t.Context(), m, i.ID); return err },
			"list invitations":   func() error { _, err := b.Invitations(t.Context(), m, page.Request{Size: 1}); return err },
			"change roles":       func() error { _, err := b.UpdateRole(t.Context(), m, b.eve.AccountID, Editor); return err },
			"remove members":     func() error { return b.RemoveMember(t.Context(), m, b.eve.AccountID) },
			"remove nobody":      func() error { return b.RemoveMember(t.Context(), m, "") },
			"hand over":          func() error { _, err := b.TransferOwnership(t.Context(), m, b.eve.AccountID); return err },
			"change settings":    func() error { _, err := b.Update(t.Context(), m, Change{Name: new("x")}); return err },
			"delete":             func() error { _, err := b.Delete(t.Context(), m); return err },
		} {
			if err := do(); !errs.Is(err, errs.Forbidden) && !(name == "remove nobody" && err != nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, b.events(t, mine.ID())); diff != "" {
			t.Errorf("events (-before +after):\n%s", diff)
		}
		if _, err := b.Members(t.Context(), m, page.Request{Size: 1}); err != nil {
			t.Errorf("seeing members: %v", err)
		}
	})
}

func TestKeysThatAreNotGood(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		now := noon
		b.Now = func() time.Time { return now }
		m := b.create(t, b.ada, "mine")
		end := noon.Add(time.Hour)
		_, brief, err := b.CreateKey(t.Context(), m, NewKey{Name: "brief", Scopes: []Permission{ReadLinks}, ExpiresAt: &end})
		if err != nil {
			t.Fatal(err)
		}
		k, secret := b.key(t, m, ReadLinks)
		b.used(t, brief)
		for range 2 {
			if revoked, err := b.RevokeKey(t.Context(), m, k.ID); err != nil || !revoked.RevokedAt.Equal(noon) {
				t.Errorf("revoking: %+v, %v", revoked, err)
			}
		}
		now = end
		for name, bad := range map[string]string{
			"revoked": secret, "expired": brief, "the prefix": k.Prefix, "made up": "lfk_x", "none": "", "in lower case": strings.ToLower(secret),
			"cut": secret[:len(secret)-1], "longer": secret + "A", "SQL": "lfk_' OR true --", "NUL": "lfk_\x00",
		} {
			if _, err := b.Authenticate(t.Context(), bad); !errs.Is(err, errs.Unauthenticated) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, in := range map[string]NewKey{
			"no name": {Scopes: []Permission{ReadLinks}}, "no scope": {Name: "n"}, "no key's": {Name: "n", Scopes: []Permission{ReadLinks, WriteMembers}},
			"made up": {Name: "n", Scopes: []Permission{"EVERYTHING"}}, "over": {Name: "n", Scopes: []Permission{ReadLinks}, ExpiresAt: &now},
		} {
			if _, _, err := b.CreateKey(t.Context(), m, in); !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%s: %v", name, err)
			}
		}
		foreign := b.create(t, b.eve, "foreign")
		theirs, _ := b.key(t, foreign, ReadLinks)
		for _, keyID := range []string{theirs.ID, id.New(id.Key), "", "' OR true --"} {
			if _, err := b.RevokeKey(t.Context(), m, keyID); !errs.Is(err, errs.NotFound) {
				t.Errorf("revoking %q: %v", keyID, err)
			}
		}
		if _, err := b.RevokeKey(t.Context(), foreign, theirs.ID); err != nil {
			t.Error(err)
		}
	})
}

// TestTheSecretIsNotKept: nothing that the database has lets anybody in.
func TestTheSecretIsNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	k, secret := b.key(t, b.create(t, b.ada, "mine"), ReadLinks)
	var row Key
	if err := b.DB.NewSelect().Model(&row).Where("id = ?", k.ID).Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(row.Hash), secret) || len(row.Hash) != 32 || len(row.Prefix) >= len(secret)-17 {
		t.Errorf("kept: %+v", row)
	}
}

// TestTheLastUseIsWrittenDownOnceAMinute: else each request would cost a write.
func TestTheLastUseIsWrittenDownOnceAMinute(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		now := noon
		b.Now = func() time.Time { return now }
		m := b.create(t, b.ada, "mine")
		_, secret := b.key(t, m, ReadLinks)
		last := func() time.Duration {
			p, err := b.Keys(t.Context(), m, page.Request{Size: 1})
			if err != nil || p.Items[0].LastUsedAt == nil {
				return -1
			}
			return p.Items[0].LastUsedAt.Sub(noon)
		}
		if last() != -1 {
			t.Error("a new key was used")
		}
		for _, step := range []struct{ at, want time.Duration }{
			{0, 0}, {59 * time.Second, 0}, {time.Minute, time.Minute}, {time.Hour, time.Hour},
		} {
			now = noon.Add(step.at)
			b.used(t, secret)
			if got := last(); got != step.want {
				t.Errorf("used at %s: last used at %s, want %s", step.at, got, step.want)
			}
		}
	})
}
