package workspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestUpdate_ChangesGivenFields(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m := b.create(t, b.ada, "ada")
		want := *m.Workspace()
		for _, step := range []struct {
			change Change
			apply  func(*Workspace)
		}{
			{Change{}, func(*Workspace) {}},
			{Change{Name: new(" Engines ")}, func(w *Workspace) { w.Name = "Engines" }},
			{Change{DefaultStrategy: new("COUNTER")}, func(w *Workspace) { w.DefaultStrategy = "COUNTER" }},
			{Change{DefaultRedirectStatus: new(308)}, func(w *Workspace) { w.DefaultRedirectStatus = 308 }},
		} {
			step.apply(&want)
			changed := must.Value(b.Update(t.Context(), m, step.change))(t)
			read := must.Value(b.Require(t.Context(), b.ada, m.ID()))(t)
			for name, got := range map[string]Membership{"answered": changed, "read": read} {
				if diff := cmp.Diff(want, *got.Workspace(), cmpopts.EquateApproxTime(0)); diff != "" ||
					got.Role() != Owner ||
					got.AccountID() != b.ada.AccountID {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		}
	})
}

func TestUpdate_RefusesBadInput(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		m := b.create(t, b.ada, "ada")
		for name, c := range map[string]Change{
			"empty name": {Name: new("")}, "custom strategy": {DefaultStrategy: new("CUSTOM")},
			"empty strategy": {DefaultStrategy: new("")}, "unknown status": {DefaultRedirectStatus: new(200)},
			"bad slug": {Slug: new("A")},
		} {
			wantError(t, errs.InvalidInput, name)(b.Update(t.Context(), m, c))
		}
		m.role = Editor
		wantError(t, errs.Forbidden, "by an editor")(b.Update(t.Context(), m, Change{Name: new("mine")}))
		wantError(t, errs.NotFound, "a member of the public workspace")(
			b.Require(t.Context(), b.ada, id.PublicWorkspace))
	})
}
