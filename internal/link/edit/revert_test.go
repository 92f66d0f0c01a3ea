package edit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestStore_ChangeWithoutEffect leaves no trace.
func TestStore_ChangeWithoutEffect(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/0", Title: new("a"), Tags: []string{"x", "y"}})
		b.Tick()
		same := b.Change(t, l, link.Change{Title: to(new("a")), Tags: to([]string{"y", "x"})})
		if stored := b.Reload(t, l); !same.UpdatedAt.Equal(l.UpdatedAt) || !stored.UpdatedAt.Equal(l.UpdatedAt) {
			t.Errorf("updated at %s, stored as %s, want %s", same.UpdatedAt, stored.UpdatedAt, l.UpdatedAt)
		}
		if n := len(b.AllVersions(t, l)); n != 1 {
			t.Errorf("%d versions", n)
		}
		b.Events(t, 1)
	})
}

// TestStore_RevertRestoresAVersion reverts to each version: the snapshots are equal, and deletion
// stays.
func TestStore_RevertRestoresAVersion(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		rule := &routing.Rule{
			Targets: []*routing.Target{{URL: new("https://example.com/target"), MaxClicks: new(int64(5))}}}
		l := b.Make(t,
			creation.Input{URL: "https://example.com/0", Strategy: new(link.Random), Tags: []string{"x"},
				Routing: &routing.Change{Rules: optional.Set([]*routing.Rule{rule})}})
		b.Tick()
		expires := b.Now.Add(time.Hour)
		b.Change(t, l, link.Change{
			URL: to("https://example.com/1"), Title: to(new("second")), Tags: to([]string{}), ExpiresAt: to(&expires),
			Routing: to[*routing.Change](nil), MaxClicks: to(new(int64(3))),
		})
		for _, number := range []int{1, 2} {
			b.Tick()
			got := must.Value(b.Edit.Revert(t.Context(), b.Mine, l.ID, number, nil))(t)
			all := b.AllVersions(t, l)
			if diff := cmp.Diff(all[len(all)-number].Snapshot, all[0].Snapshot); diff != "" ||
				all[0].Cause != link.CauseReverted {
				t.Errorf("%s of version %d (-want +got):\n%s", all[0].Cause, number, diff)
			}
			if got.Version != all[0].Number {
				t.Errorf("version %d, want %d", got.Version, all[0].Number)
			}
			if number == 1 && got.CheckAt.After(b.Now) {
				t.Error("the restored URLs are not checked")
			}
		}
		before := len(b.AllVersions(t, l))
		if _, err := b.Edit.Revert(t.Context(), b.Mine, l.ID, 2, nil); err != nil ||
			len(b.AllVersions(t, l)) != before {
			t.Errorf("reverting to the present state: %d versions, want %d: %v", len(b.AllVersions(t, l)), before, err)
		}
		linktest.Refused(b.Edit.Revert(t.Context(), b.Mine, l.ID, 99, nil))(t, errs.NotFound, "an unknown version")
		stale := noon
		linktest.Refused(b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, &stale))(t, errs.Conflict, "a stale updatedAt")
		linktest.Refused(b.Edit.Revert(t.Context(), b.Foreign, l.ID, 1, nil))(t, errs.NotFound, "of another workspace")
	})
}

// TestStore_RevertKeepsPromises checks that a revert neither shortens the tombstone of a link nor
// bypasses the operator.
func TestStore_RevertKeepsPromises(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, later := noon.Add(time.Hour), noon.AddDate(1, 0, 0)
		l := b.Make(t, creation.Input{
			URL: "https://example.com/0", Strategy: new(link.Random), ExpiresAt: &soon,
			Routing: &routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))},
		})
		b.Tick()
		b.Change(t, l, link.Change{ExpiresAt: to(&later), Routing: to[*routing.Change](nil)})
		b.Now = noon.AddDate(0, 6, 0) // much longer than the tombstone
		got, err := b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || got.Status(b.Now) != routing.Expired {
			t.Fatalf("%s, %v", got.Status(b.Now), err)
		}
		b.PurgeEnded(t)
		if n := len(b.AllVersions(t, l)); n != 3 {
			t.Errorf("%d versions are left after a clean-up", n)
		}
		b.Set(t, l, "disabled_at = ?", noon)
		_, err = b.Edit.Revert(t.Context(), b.Mine, l.ID, 2, nil)
		if e := errs.From(err); e == nil || e.Kind != errs.UnsafeURL {
			t.Errorf("other URLs of a disabled link: %v", err)
		}
	})
}
