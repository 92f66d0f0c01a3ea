package upkeep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// there says which of the links the store still has.
func (b *bundle) there(t *testing.T, links map[string]*link.Link) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for name, l := range links {
		_, err := b.Get(t.Context(), b.Mine, l.ID)
		if err != nil && !errs.Is(err, errs.NotFound) {
			t.Fatal(err)
		}
		found[name] = err == nil
	}
	return found
}

func TestUpkeep_CleanUpPurgesAfterTombstones(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, late := noon.Add(time.Hour), noon.Add(200*24*time.Hour)
		tagged := creation.Input{URL: "https://example.com/tagged", ExpiresAt: &soon, Tags: []string{"old"}}
		links := map[string]*link.Link{}
		for name, in := range map[string]creation.Input{
			"expired":          tagged,
			"expired, counted": {URL: "https://example.com/counted", ExpiresAt: &soon, Strategy: new(link.Counter)},
			"deleted":          {URL: "https://example.com/deleted"},
			"deleted, custom":  {URL: "https://example.com/custom", CustomCode: new("promo")},
			"disabled":         {URL: "https://example.com/disabled", ExpiresAt: &soon},
			"active":           {URL: "https://example.com/active"},
			"expires later":    {URL: "https://example.com/later", ExpiresAt: &late},
			"prolonged":        {URL: "https://example.com/prolonged", ExpiresAt: &soon},
			"restored":         {URL: "https://example.com/restored"},
		} {
			links[name] = b.create(t, in)
		}
		for _, name := range []string{"deleted", "deleted, custom", "restored"} {
			must.Value(b.Edit.Delete(t.Context(), b.Mine, links[name].ID))(t)
		}
		must.Value(b.DB.NewUpdate().Model(links["disabled"]).Set("disabled_at = ?", noon).WherePK().
			Exec(db.AsSystem(t.Context())))(t)
		all := map[string]bool{}
		for name := range links {
			all[name] = true
		}
		b.Now = soon
		must.NoError(t, b.CleanUp(t.Context())) // marks
		b.Change(t, links["prolonged"], link.Change{ExpiresAt: optional.Set(&late)})
		must.Value(b.Edit.Restore(t.Context(), b.Mine, links["restored"].ID))(t)
		b.Now = noon.Add(linktest.Tombstones - time.Microsecond)
		must.NoError(t, b.CleanUp(t.Context()))
		linktest.Equal(t, all, b.there(t, links), "before the tombstones' end")
		b.Now = soon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		for _, gone := range []string{"expired", "expired, counted", "deleted", "deleted, custom"} {
			all[gone] = false
		}
		linktest.Equal(t, all, b.there(t, links), "after it")
		if n, err := b.DB.NewSelect().Table("link_tags").Count(db.AsSystem(t.Context())); err != nil || n != 0 {
			t.Errorf("%d tags of purged links: %v", n, err)
		}
	})
}

// TestUpkeep_PurgedURLKeepsItsCode: nothing else of the link is left.
func TestUpkeep_PurgedURLKeepsItsCode(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, title := noon.Add(time.Hour), "title"
		l := b.create(t, creation.Input{URL: "https://example.com/a", ExpiresAt: &soon, Title: &title, Note: &title})
		b.Now = soon
		must.NoError(t, b.CleanUp(t.Context()))
		b.Now = soon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		var kept struct {
			link.Link `bun:",extend"`

			TitleKey, Search string
		}
		must.NoError(t, b.DB.NewSelect().Model(&kept).Where("id = ?", l.ID).Scan(db.AsSystem(t.Context())))
		if kept.OriginalURL+kept.CanonicalURL+kept.Search+kept.TitleKey != "" || kept.Title != nil ||
			kept.Note != nil ||
			kept.CreatedBy != nil {
			t.Errorf("more is kept than the code: %+v", kept)
		}
		for name, err := range map[string]error{
			"update":  second(b.Edit.Update(t.Context(), b.Mine, link.Change{ID: l.ID, Title: optional.Set(&title)})),
			"delete":  second(b.Edit.Delete(t.Context(), b.Mine, l.ID)),
			"restore": second(b.Edit.Restore(t.Context(), b.Mine, l.ID)),
			"find":    second(b.WorkspaceOf(t.Context(), l.ID)),
		} {
			t.Run(name, func(t *testing.T) {
				if !errs.Is(err, errs.NotFound) {
					t.Error(err)
				}
			})
		}
		if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil ||
			target.Status(b.Now) != routing.Deleted {
			t.Errorf("resolved: %v, %v", target, err)
		}
		if p, err := b.creation.Preview(t.Context(), b.Mine, "https://example.com/a"); err != nil || p.Existing != nil {
			t.Errorf("previewed: %v, %v", p, err)
		}
		again := b.create(t, creation.Input{URL: "https://example.com/a"})
		if again.Code != l.Code || again.Status(b.Now) != routing.Active || again.Title != nil ||
			again.ExpiresAt != nil ||
			again.CanonicalURL != l.CanonicalURL {
			t.Errorf("made again: %+v", again)
		}
	})
}

// TestUpkeep_CleanUpInBatches: more links than one batch, from two nodes at once.
func TestUpkeep_CleanUpInBatches(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		var in []*creation.Input
		for i := range 2*batchSize + 10 {
			in = append(in, &creation.Input{URL: fmt.Sprintf("https://example.com/%d", i), Strategy: new(link.Counter),
				ExpiresAt: &soon})
		}
		b.createMany(t, in[:link.MaxBatch]...)
		b.createMany(t, in[link.MaxBatch:]...)
		stays := b.create(t, creation.Input{URL: "https://example.com/stays"})
		b.Now = soon
		b.recordTransitions(t)
		b.Now = soon.Add(linktest.Tombstones)
		done := make(chan error)
		for range 2 {
			go func() { done <- b.CleanUp(t.Context()) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		must.NoError(t, b.CleanUp(t.Context())) // what one of them passed over because the other had it
		var left []string
		if err := b.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Scan(db.AsSystem(t.Context()),
			&left); err != nil ||
			!cmp.Equal(left, []string{stays.ID}) {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// TestUpkeep_FailingStepDelaysNoOther of a clean-up.
func TestUpkeep_FailingStepDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		l := b.create(t, creation.Input{URL: "https://example.com/a", ExpiresAt: &soon})
		b.Now = soon
		must.NoError(t, b.RecordTransitions(t.Context()))
		b.Now = soon.Add(linktest.Tombstones)
		clicktest.Rename(t, b.DB, "grants", "elsewhere") // which transitions read
		if err := b.CleanUp(t.Context()); err == nil {
			t.Error("transitions were recorded without their table")
		}
		clicktest.Rename(t, b.DB, "elsewhere", "grants")
		if b.there(t, map[string]*link.Link{"it": l})["it"] {
			t.Error("the link is not purged")
		}
	})
}

// TestUpkeep_LinkThatReturnsGetsANewTombstone, although it expired long ago: one that is restored,
// or enabled again.
func TestUpkeep_LinkThatReturnsGetsANewTombstone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		deleted := b.create(t, creation.Input{URL: "https://example.com/a", ExpiresAt: &soon})
		disabled := b.create(t, creation.Input{URL: "https://example.com/b", ExpiresAt: &soon})
		links := map[string]*link.Link{"deleted": deleted, "disabled": disabled}
		b.Set(t, disabled, "disabled_at = ?", noon)
		b.Now = noon.Add(linktest.Tombstones - 24*time.Hour)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		returned := noon.Add(linktest.Tombstones + 24*time.Hour)
		b.Now = returned
		must.Value(b.Edit.Restore(t.Context(), b.Mine, deleted.ID))(t)
		b.Set(t, disabled, "disabled_at = NULL")
		must.NoError(t, b.CleanUp(t.Context()))
		linktest.Equal(t, map[string]bool{"deleted": true, "disabled": true}, b.there(t, links),
			"returned, and gone with the next clean-up")
		linktest.Equal(t, []string{"EXPIRED 1h0m0s"}, b.transitionsOf(t, disabled), "difference")
		b.Now = returned.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		linktest.Equal(t, map[string]bool{"deleted": false, "disabled": false}, b.there(t, links), "stands for ever")
	})
}

// TestUpkeep_RevivedPurgedLinkHasNoHistory: nothing of the clicks before counts towards its limit.
func TestUpkeep_RevivedPurgedLinkHasNoHistory(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.create(t, creation.Input{URL: "https://example.com/a"})
		b.Follow(t, l, 10)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = noon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		five := int64(5)
		if l = b.create(t, creation.Input{URL: "https://example.com/a", MaxClicks: &five}); l.Status(
			b.Now) != routing.Active ||
			*l.CreatedBy != b.Me {
			t.Errorf("%+v", l)
		}
		for _, count := range []func(context.Context) error{b.Grants.RaiseGrants, b.Grants.RecountGrants} {
			must.NoError(t, count(t.Context()))
			if l, err := b.Get(t.Context(), b.Mine, l.ID); err != nil || l.CreatedBy == nil || l.Granted != 0 {
				t.Errorf("read: %+v, %v", l, err)
			}
		}
	})
}

// TestUpkeep_PurgeForgetsValues of the events of a link, but not the fact of each event.
func TestUpkeep_PurgeForgetsValues(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, strategy := range []link.Strategy{link.Random, link.Deterministic} {
			l := b.create(t, creation.Input{URL: "https://example.com/secret", Strategy: new(strategy)})
			b.Change(t, l, link.Change{Title: optional.Set(new("secret"))})
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		b.Now = b.Now.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		actions := map[audit.Action]int{}
		for _, e := range b.events(t) {
			actions[e.Action]++
			if e.Changes != nil {
				t.Errorf("%s has %s", e.Action, *e.Changes)
			}
		}
		want := map[audit.Action]int{
			audit.LinkCreated: 2, audit.LinkUpdated: 2, audit.LinkDeleted: 2, audit.LinkPurged: 2,
		}
		linktest.Equal(t, want, actions, "difference")
	})
}

func second[T any](_ T, err error) error { return err }
