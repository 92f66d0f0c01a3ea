package workspace

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

func of(n int64) *Limit { return &Limit{Of: &n} }

// auditEvents returns the audit log for members, newest first.
func (b *bundle) auditEvents(t *testing.T, m Membership) (events []string) {
	t.Helper()
	p := must.Value(b.AuditLog(t.Context(), m, nil, page.Request{Size: 100}))(t)
	for _, e := range p.Items {
		if e.Action != audit.WorkspaceCreated {
			events = append(events, strings.TrimSpace(string(e.Action)+" "+e.ActorID+e.Details))
		}
	}
	return events
}

func TestOperator_SetsLimits(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m, other := b.create(t, b.ada, "mine"), b.create(t, b.eve, "other")
		for _, c := range []struct {
			hits, links         *Limit
			wantHits, wantLinks *int64
		}{
			{hits: of(5), wantHits: of(5).Of},
			{links: of(0), wantHits: of(5).Of, wantLinks: of(0).Of},
			{hits: &Limit{}, links: of(MaxLimit), wantLinks: of(MaxLimit).Of},
		} {
			w := must.Value(b.SetLimits(t.Context(), "mine", c.hits, c.links))(t)
			kept := must.Value(b.Require(t.Context(), b.ada, m.ID()))(t)
			want := []*int64{c.wantHits, c.wantLinks}
			for _, got := range []*Workspace{w, kept.Workspace()} {
				wanttest.Equal(t, want, []*int64{got.HitQuota, got.LinkQuota}, "hits and links")
			}
		}
		want := []string{
			`WORKSPACE_UPDATED {"hitQuota":null,"linkQuota":1125899906842624}`, `WORKSPACE_UPDATED {"linkQuota":0}`,
			`WORKSPACE_UPDATED {"hitQuota":5}`,
		}
		wanttest.Equal(t, want, b.auditEvents(t, m), "the audit log")
		if untouched, err := b.Require(t.Context(), b.eve, other.ID()); err != nil ||
			untouched.Workspace().HitQuota != nil {
			t.Errorf("the other workspace: %+v: %v", untouched, err)
		}
		for _, l := range []*Limit{of(-1), of(MaxLimit + 1)} {
			wantError(t, errs.InvalidInput, "%d", *l.Of)(b.SetLimits(t.Context(), "mine", l, nil))
		}
		for _, slug := range []string{"nobody", "", "public", id.PublicWorkspace, "' OR 1=1"} {
			wantError(t, errs.NotFound, slug)(b.SetLimits(t.Context(), slug, of(1), nil))
		}
	})
}

// TestOperator_ActsForAnOwner creates a workspace for an account whose address is not verified, and acts for the owner
// of the longest standing, without an actor.
func TestOperator_ActsForAnOwner(t *testing.T) {
	eachInviting(t, func(t *testing.T, b *bundle, mail *postbox) {
		mail.configured = true
		wantError(t, errs.Forbidden, "an unverified account")(b.Create(t.Context(), b.ada, "Mine", "mine"))
		w := must.Value(b.AdminCreate(t.Context(), b.ada.AccountID, "Mine", "mine"))(t)
		mail.configured = false
		must.Value(b.DB.NewInsert().Model(&Member{WorkspaceID: w.ID, AccountID: b.eve.AccountID, Role: Owner,
			CreatedAt: noon.Add(-time.Second)}).Exec(db.AsSystem(t.Context())))(t)
		m := must.Value(b.AdminRequire(t.Context(), w.ID))(t)
		if m.AccountID() != b.eve.AccountID || m.ActorID() != "" || !m.May(WriteKeys) || !m.May(WriteOwners) {
			t.Errorf("the operator's membership: %+v", m)
		}
		must.NoError(t, ChangeAs(must.Value(m.Enter(t.Context(), WriteKeys))(t), b.DB, m, WriteKeys,
			func(ctx context.Context, tx bun.Tx) error {
				return m.Audit(ctx, tx, noon, audit.WorkspaceUpdated, w.ID, nil)
			}))
		owner := must.Value(b.Require(t.Context(), b.ada, w.ID))(t)
		wanttest.Equal(t, []string{"WORKSPACE_UPDATED {}"}, b.auditEvents(t, owner), "the audit log")
		for _, slug := range []string{"nobody", "public", id.PublicWorkspace} {
			wantError(t, errs.NotFound, slug)(b.AdminRequire(t.Context(), slug))
		}
	})
}

func TestOperator_SuspendsAndRestores(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m := b.create(t, b.ada, "mine")
		now := noon
		b.Now = func() time.Time { return now }
		wantError(t, errs.Conflict, "bringing back what is there")(b.AdminRestore(t.Context(), "mine"))
		w, err := b.AdminDelete(t.Context(), "mine")
		if err != nil || !w.DeletedAt.Equal(noon) {
			t.Fatalf("taken down: %+v: %v", w, err)
		}
		wantError(t, errs.NotFound, "its owner")(b.Require(t.Context(), b.ada, m.ID()))
		wantError(t, errs.Conflict, "taking it down again")(b.AdminDelete(t.Context(), "mine"))
		wantError(t, errs.NotFound, "limits of what is deleted")(b.SetLimits(t.Context(), "mine", of(1), nil))
		now = noon.Add(Undo)
		wantError(t, errs.Expired, "bringing back what is purged")(b.AdminRestore(t.Context(), m.ID()))
		now = noon.Add(Undo - time.Microsecond)
		if w, err := b.AdminRestore(t.Context(), m.ID()); err != nil || w.DeletedAt != nil {
			t.Errorf("brought back: %+v: %v", w, err)
		}
		wanttest.Equal(t, []string{"WORKSPACE_RESTORED {}", "WORKSPACE_DELETED {}"}, b.auditEvents(t, m),
			"the audit log")
		for _, slug := range []string{"public", id.PublicWorkspace} {
			wantError(t, errs.NotFound, slug)(b.AdminDelete(t.Context(), slug))
		}
	})
}

func TestOperator_ListsWorkspaces(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, two := b.create(t, b.ada, "one"), b.create(t, b.eve, "two")
		renamed := "second"
		must.Value(b.Update(t.Context(), two, Change{Slug: &renamed}))(t)
		must.Value(b.AdminDelete(t.Context(), "second"))(t)
		for _, c := range []struct {
			slug, after string
			limit       int
			want        []string
		}{
			{limit: 10, want: []string{"one", "second"}},
			{limit: 1, want: []string{"one"}},
			{limit: 10, after: one.ID(), want: []string{"second"}},
			{limit: 10, slug: "two", want: []string{"second"}},
			{limit: 10, slug: "second", want: []string{"second"}},
			{limit: 10, slug: "nobody", want: []string{}},
		} {
			tenants, err := b.AdminList(t.Context(), c.slug, c.after, c.limit)
			slugs := []string{}
			for _, w := range tenants {
				slugs = append(slugs, w.Slug)
				if w.Members != 1 || (w.DeletedAt != nil) != (w.Slug == "second") {
					t.Errorf("slug %q, after %t, limit %d: %+v", c.slug, c.after != "", c.limit, w)
				}
			}
			must.NoError(t, err)
			wanttest.Equal(t, c.want, slugs, "slug %q, after %t, limit %d: %+v", c.slug, c.after != "", c.limit, c)
		}
	})
}
