package link

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
)

func (b *bundle) cleanUp(t *testing.T) {
	t.Helper()
	must.NoError(t, b.CleanUp(t.Context()))
}

// there says which of the links the store still has.
func (b *bundle) there(t *testing.T, links map[string]*Link) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for name, l := range links {
		_, err := b.Get(t.Context(), b.mine, l.ID)
		if err != nil && !errs.Is(err, errs.NotFound) {
			t.Fatal(err)
		}
		found[name] = err == nil
	}
	return found
}

func TestStore_CleanUpPurgesAfterTombstones(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		soon, late := noon.Add(time.Hour), noon.Add(200*24*time.Hour)
		tagged := New{URL: "https://example.com/tagged", ExpiresAt: &soon, Tags: []string{"old"}}
		links := map[string]*Link{}
		for name, in := range map[string]New{
			"expired":          tagged,
			"expired, counted": {URL: "https://example.com/counted", ExpiresAt: &soon, Strategy: new(Counter)},
			"deleted":          {URL: "https://example.com/deleted"},
			"deleted, custom":  custom("https://example.com/custom", "promo"),
			"disabled":         {URL: "https://example.com/disabled", ExpiresAt: &soon},
			"active":           {URL: "https://example.com/active"},
			"expires later":    {URL: "https://example.com/later", ExpiresAt: &late},
			"prolonged":        {URL: "https://example.com/prolonged", ExpiresAt: &soon},
			"restored":         {URL: "https://example.com/restored"},
		} {
			links[name], _ = b.create(t, in)
		}
		for _, name := range []string{"deleted", "deleted, custom", "restored"} {
			must.Value(b.Delete(t.Context(), b.mine, links[name].ID))(t)
		}
		must.Value(d.NewUpdate().Model(links["disabled"]).Set("disabled_at = ?", noon).WherePK().
			Exec(db.AsSystem(t.Context())))(t)
		all := map[string]bool{}
		for name := range links {
			all[name] = true
		}
		b.now = soon
		b.cleanUp(t) // marks
		b.update(t, links["prolonged"], Change{ExpiresAt: to(&late)})
		must.Value(b.Restore(t.Context(), b.mine, links["restored"].ID))(t)
		b.now = noon.Add(b.Tombstones - time.Microsecond)
		b.cleanUp(t)
		if diff := cmp.Diff(all, b.there(t, links)); diff != "" {
			t.Errorf("before the tombstones' end (-want +got):\n%s", diff)
		}
		b.now = soon.Add(b.Tombstones)
		b.cleanUp(t)
		for _, gone := range []string{"expired", "expired, counted", "deleted", "deleted, custom"} {
			all[gone] = false
		}
		if diff := cmp.Diff(all, b.there(t, links)); diff != "" {
			t.Errorf("after it (-want +got):\n%s", diff)
		}
		if n, err := d.NewSelect().Model((*tag)(nil)).Count(db.AsSystem(t.Context())); err != nil || n != 0 {
			t.Errorf("%d tags of purged links: %v", n, err)
		}
	})
}

// TestStore_PurgedURLKeepsItsCode: nothing else of the link is left.
func TestStore_PurgedURLKeepsItsCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		soon, title := noon.Add(time.Hour), "title"
		l, _ := b.create(t, New{URL: "https://example.com/a", ExpiresAt: &soon, Title: &title, Note: &title})
		b.now = soon
		b.cleanUp(t)
		b.now = soon.Add(b.Tombstones)
		b.cleanUp(t)
		var kept record
		must.NoError(t, d.NewSelect().Model(&kept).Where("id = ?", l.ID).Scan(db.AsSystem(t.Context())))
		if kept.OriginalURL+kept.CanonicalURL+kept.Search+kept.TitleKey != "" || kept.Title != nil || kept.Note != nil ||
			kept.CreatedBy != nil {
			t.Errorf("more is kept than the code: %+v", kept)
		}
		for name, err := range map[string]error{
			"update":  second(b.Update(t.Context(), b.mine, Change{ID: l.ID, Title: to(&title)})),
			"delete":  second(b.Delete(t.Context(), b.mine, l.ID)),
			"restore": second(b.Restore(t.Context(), b.mine, l.ID)),
			"find":    second(b.WorkspaceOf(t.Context(), l.ID)),
		} {
			t.Run(name, func(t *testing.T) {
				if !errs.Is(err, errs.NotFound) {
					t.Error(err)
				}
			})
		}
		if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil ||
			target.Status(b.now) != routing.Deleted {
			t.Errorf("resolved: %v, %v", target, err)
		}
		if p, err := b.Preview(t.Context(), b.mine, "https://example.com/a"); err != nil || p.Existing != nil {
			t.Errorf("previewed: %v, %v", p, err)
		}
		again, _ := b.create(t, New{URL: "https://example.com/a"})
		if again.Code != l.Code || again.Status(b.now) != routing.Active || again.Title != nil || again.ExpiresAt != nil ||
			again.CanonicalURL != l.CanonicalURL {
			t.Errorf("made again: %+v", again)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestStore_CleanUpInBatches: more links than one batch, from two nodes at once.
func TestStore_CleanUpInBatches(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.LinkQuota = 10_000
		soon := noon.Add(time.Hour)
		var in []*New
		for i := range 2*sweepBatch + 10 {
			in = append(in, &New{URL: fmt.Sprintf("https://example.com/%d", i), Strategy: new(Counter), ExpiresAt: &soon})
		}
		b.createMany(t, SkipFailed, in[:MaxBatch]...)
		b.createMany(t, SkipFailed, in[MaxBatch:]...)
		stays, _ := b.create(t, New{URL: "https://example.com/stays"})
		b.now = soon.Add(b.Tombstones)
		done := make(chan error)
		for range 2 {
			go func() { done <- b.CleanUp(t.Context()) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.cleanUp(t) // what one of them passed over because the other had it
		var left []string
		if err := d.NewSelect().Model((*Link)(nil)).Column("id").Scan(db.AsSystem(t.Context()), &left); err != nil ||
			!cmp.Equal(left, []string{stays.ID}) {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// TestStore_RestoredLinkGetsANewTombstone, although it expired long ago.
func TestStore_RestoredLinkGetsANewTombstone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		soon := noon.Add(time.Hour)
		l, _ := b.create(t, New{URL: "https://example.com/a", ExpiresAt: &soon})
		b.now = noon.Add(b.Tombstones - 24*time.Hour)
		must.Value(b.Delete(t.Context(), b.mine, l.ID))(t)
		restored := noon.Add(b.Tombstones + 24*time.Hour)
		b.now = restored
		must.Value(b.Restore(t.Context(), b.mine, l.ID))(t)
		b.cleanUp(t)
		if !b.there(t, map[string]*Link{"it": l})["it"] {
			t.Error("restored, and gone with the next clean-up")
		}
		b.now = restored.Add(b.Tombstones)
		b.cleanUp(t)
		if b.there(t, map[string]*Link{"it": l})["it"] {
			t.Error("it stands for ever")
		}
	})
}

// TestStore_RevivedPurgedLinkHasNoHistory: nothing of the clicks before counts towards its limit.
func TestStore_RevivedPurgedLinkHasNoHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, New{URL: "https://example.com/a"})
		b.follow(t, l, 10)
		must.Value(b.Delete(t.Context(), b.mine, l.ID))(t)
		b.now = noon.Add(b.Tombstones)
		b.cleanUp(t)
		five := int64(5)
		if l, _ = b.create(t, New{URL: "https://example.com/a", MaxClicks: &five}); l.Status(b.now) != routing.Active ||
			*l.CreatedBy != b.me {
			t.Errorf("%+v", l)
		}
		if l, err := b.Get(t.Context(), b.mine, l.ID); err != nil || l.CreatedBy == nil || l.Granted != 0 {
			t.Errorf("read: %+v, %v", l, err)
		}
	})
}
