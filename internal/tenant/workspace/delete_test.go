package workspace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

func TestDelete_CanBeRestored(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		now := noon
		b.Now = func() time.Time { return now }
		m, by := b.team(t, "team")
		for _, r := range []Role{Admin, Editor, Viewer} {
			wantError(t, errs.Forbidden, "by a %s", r)(b.Delete(t.Context(), b.as(t, by[r], m.ID())))
		}
		deleted, err := b.Delete(t.Context(), m)
		if err != nil || !deleted.Workspace().DeletedAt.Equal(noon) {
			t.Fatalf("%+v, %v", deleted.Workspace(), err)
		}
		by["key"] = account.Actor{Key: &account.Key{ID: id.New(id.Key), WorkspaceID: m.ID(),
			Scopes: []string{"LINKS_READ"}}}
		for name, a := range by {
			wantError(t, errs.NotFound, "%s sees it", name)(b.Require(t.Context(), a, m.ID()))
			if p, err := b.List(t.Context(), a, false, page.Request{Size: 9}); err != nil || len(p.Items) != 0 {
				t.Errorf("%s can list it: %v", name, err)
			}
		}
		for _, r := range []Role{Admin, Editor, Viewer, "key"} {
			wantError(t, errs.NotFound, "restored by %s", r)(b.Restore(t.Context(), by[r], m.ID()))
			if r == "key" {
				continue
			}
			if p, err := b.List(t.Context(), by[r], true, page.Request{Size: 9}); err != nil || len(p.Items) != 0 {
				t.Errorf("%s can list deleted workspaces: %v", r, err)
			}
		}
		if p, err := b.List(t.Context(), b.ada, true, page.Request{Size: 9}); err != nil || len(p.Items) != 1 {
			t.Errorf("the owner finds it among the deleted: %v", err)
		}
		now = noon.Add(Undo - time.Microsecond)
		weak := b.ada
		weak.SessionID = id.New(id.Session)
		_, err = b.DB.NewRaw("UPDATE workspaces SET require_second_factor = TRUE WHERE id = ?", m.ID()).
			Exec(db.AsSystem(t.Context()))
		must.NoError(t, err)
		wantError(t, errs.Forbidden, "the owner without a required second factor")(b.Restore(t.Context(), weak, m.ID()))
		restored, err := b.Restore(t.Context(), b.ada, m.ID())
		if err != nil || restored.Workspace().DeletedAt != nil {
			t.Fatalf("%+v, %v", restored, err)
		}
		wantError(t, errs.NotFound, "restored again")(b.Restore(t.Context(), b.ada, m.ID()))
		b.as(t, by[Viewer], m.ID())
		want := []string{
			b.ada.AccountID + " WORKSPACE_DELETED " + m.ID() + " {}", b.ada.AccountID + " WORKSPACE_RESTORED " +
				m.ID() + " {}",
		}
		wanttest.Equal(t, want, b.events(t, m.ID()), "events")
		now = noon.Add(100 * 24 * time.Hour)
		must.Value(b.Delete(t.Context(), restored))(t)
		now = now.Add(Undo)
		wantError(t, errs.NotFound, "restored after %s", Undo)(b.Restore(t.Context(), b.ada, m.ID()))
	})
}

// TestPurge_KeepsSlugsReserved: nothing else of a workspace that was deleted for long, and nothing
// at all of others.
func TestPurge_KeepsSlugsReserved(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		b, _ := inviting(t, d)
		now := noon
		b.Now = func() time.Time { return now }
		m, _ := b.team(t, "team")
		other, _ := b.team(t, "other")
		kept, _ := b.team(t, "kept")
		for _, one := range []Membership{m, other, kept} {
			b.invite(t, one, "x@example.com", Viewer)
			must.Value(b.Update(t.Context(), one, Change{Slug: new(one.Slug() + "-renamed")}))(t)
		}
		for _, one := range []Membership{m, other} {
			must.Value(b.Delete(t.Context(), one))(t)
			now = now.Add(time.Hour)
		}
		now = noon.Add(purgeAfter)
		var purged []string
		for range 2 {
			must.NoError(t, b.Purge(db.AsSystem(t.Context()), func(_ context.Context, workspaceID string) error {
				purged = append(purged, workspaceID)
				return nil
			}))
		}
		wanttest.Equal(t, []string{m.ID()}, purged, "purged")
		for _, table := range []string{"members", "invitations", "audit_events"} {
			for one, want := range map[string]bool{m.ID(): false, other.ID(): true, kept.ID(): true} {
				there, err := d.NewSelect().Table(table).Where("workspace_id = ?", one).Exists(db.AsSystem(t.Context()))
				if err != nil || there != want {
					t.Errorf("%s of %s are there: %t, want %t: %v", table, one, there, want, err)
				}
			}
		}
		for _, slug := range []string{"team", "team-renamed"} {
			wantError(t, errs.SlugTaken, "the slug %s of a purged workspace", slug)(
				b.Create(t.Context(), b.eve, "Another", slug))
		}
		wantError(t, errs.NotFound, "restored")(b.Restore(t.Context(), b.ada, m.ID()))
	})
}

// TestPurge_FailingWorkspaceDelaysNoOther that was deleted later.
func TestPurge_FailingWorkspaceDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		first, second := b.create(t, b.ada, "first"), b.create(t, b.ada, "second")
		now := noon
		b.Now = func() time.Time { return now }
		for _, m := range []Membership{first, second} {
			must.Value(b.Delete(t.Context(), m))(t)
			now = now.Add(time.Minute)
		}
		now = now.Add(purgeAfter)
		broken := errors.New("no luck")
		for range 2 {
			err := b.Purge(db.AsSystem(t.Context()), func(_ context.Context, workspaceID string) error {
				if workspaceID == first.ID() {
					return broken
				}
				return nil
			})
			if !errors.Is(err, broken) {
				t.Errorf("purged: %v", err)
			}
		}
		var purged []string
		must.NoError(t, b.DB.NewSelect().Model((*Workspace)(nil)).Column("id").Where("purged_at IS NOT NULL").
			Scan(db.AsSystem(t.Context()), &purged))
		wanttest.Equal(t, []string{second.ID()}, purged, "purged")
	})
}

func TestSlug_IsReservedForever(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, other := b.create(t, b.ada, "first"), b.create(t, b.eve, "other")
		renamed, err := b.Update(t.Context(), m, Change{Slug: new("second")})
		if err != nil || renamed.Slug() != "second" {
			t.Fatalf("%+v, %v", renamed, err)
		}
		for _, slug := range []string{"first", "second"} {
			if workspaceID, err := b.IDBySlug(t.Context(), slug); err != nil || workspaceID != m.ID() {
				t.Errorf("%s: %s, %v", slug, workspaceID, err)
			}
			if _, err := b.Update(t.Context(), other, Change{Slug: &slug, Name: new("Thief")}); !errs.Is(err,
				errs.SlugTaken) {
				t.Errorf("another takes %s: %v", slug, err)
			}
			if _, err := b.Create(t.Context(), b.eve, "New", slug); !errs.Is(err, errs.SlugTaken) ||
				!cmp.Equal(errs.From(err).Field, []string{"slug"}) {
				t.Errorf("a new one takes %s: %v", slug, err)
			}
		}
		if got := b.as(t, b.eve, other.ID()); got.Slug() != "other" || got.Name() == "Thief" {
			t.Errorf("what was refused is half done: %+v", got.Workspace())
		}
		if back, err := b.Update(t.Context(), renamed, Change{Slug: new("first")}); err != nil ||
			back.Slug() != "first" {
			t.Errorf("back again: %+v, %v", back, err)
		}
		want := []string{
			b.ada.AccountID + ` WORKSPACE_UPDATED ` + m.ID() + ` {"slug":"second"}`,
			b.ada.AccountID + ` WORKSPACE_UPDATED ` +
				m.ID() + ` {"slug":"first"}`,
		}
		wanttest.Equal(t, want, b.events(t, m.ID()), "events")
	})
}

func TestExport_HasEveryRecord(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, _ *postbox) {
		b.create(t, b.ada, "mine")
		other := b.create(t, b.eve, "other")
		_, token := b.invite(t, other, b.email(t, b.ada), Viewer)
		must.Value(b.Accept(t.Context(), b.ada, token))(t)
		e, err := b.Export(t.Context(), b.ada)
		if err != nil || len(e.Memberships) != 2 || e.Memberships[0].Role != Owner ||
			e.Memberships[1].Slug != "other" ||
			len(e.Invitations) != 1 {
			t.Errorf("%+v, %v", e, err)
		}
		_, err = b.DB.NewUpdate().Table("workspaces").Set("require_second_factor = TRUE").Where("slug = 'other'").
			Exec(db.AsSystem(t.Context()))
		must.NoError(t, err)
		for _, c := range []struct {
			session account.Actor
			want    int
		}{
			{account.Actor{AccountID: b.ada.AccountID, SessionID: "ses"}, 0},
			{account.Actor{AccountID: b.ada.AccountID, SessionID: "ses", HasSecondFactor: true}, 1},
		} {
			if e := must.Value(b.Export(t.Context(), c.session))(t); len(e.Memberships) != 2 ||
				len(e.Invitations) != c.want {
				t.Errorf("%+v: %+v", c.session, e)
			}
		}
		for _, a := range []account.Actor{{}, {AccountID: id.New(id.Account)}, {AccountID: "' OR true --"}} {
			if e, err := b.Export(t.Context(), a); err != nil || len(e.Memberships)+len(e.Invitations) > 0 {
				t.Errorf("%+v: %+v, %v", a, e, err)
			}
		}
	})
}
