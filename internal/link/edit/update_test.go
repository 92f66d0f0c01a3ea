package edit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

func TestStore_UpdateChangesSetFields(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title, code, soon := "before", "promo", b.Now.Add(time.Hour)
		l := b.Make(t,
			creation.Input{URL: "https://example.com/a", CustomCode: &code, Title: &title, ExpiresAt: &soon})
		after := "after"
		got := b.Change(t, l, link.Change{Title: to(&after), RedirectStatus: to(301)})
		if *got.Title != "after" || got.RedirectStatus != 301 || !got.ExpiresAt.Equal(soon) || got.Code != code ||
			!got.UpdatedAt.After(l.UpdatedAt) {
			t.Errorf("%+v", got)
		}
		got = b.Change(t, l, link.Change{Title: to[*string](nil), ExpiresAt: to[*time.Time](nil),
			URL: to("https://example.com/b")})
		if got.Title != nil || got.ExpiresAt != nil || got.CanonicalURL != "https://example.com/b" ||
			got.RedirectStatus != 301 {
			t.Errorf("%+v", got)
		}
		target, err := b.At(t.Context(), resolve.Address{Slug: "mine", Code: code})
		if err != nil || target.OriginalURL != "https://example.com/b" {
			t.Errorf("the code leads to %+v: %v", target, err)
		}
		// The code is the new URL's now: creating that again finds it, and the old URL does not.
		if again, created := b.MakeOrFind(t, custom("https://example.com/b", code)); created || again.ID != l.ID {
			t.Errorf("created %t, id %s", created, again.ID)
		}
		b.Refuse(t, custom("https://example.com/a", code), errs.CodeTaken)
	})
}

func TestStore_UpdateRefusals(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		fixed := b.Make(t, creation.Input{URL: "https://example.com/fixed"})
		free := b.Make(t, creation.Input{URL: "https://example.com/free", Strategy: new(link.Random)})
		foreign, _, err := b.Create(t.Context(), b.Foreign, creation.Input{URL: "https://example.com/"})
		must.NoError(t, err)
		past, later, lines := b.Now, b.Now.Add(time.Hour), "two\nlines"
		for name, c := range map[string]struct {
			linkID string
			change link.Change
			want   errs.Kind
		}{
			"another URL":     {fixed.ID, link.Change{URL: to("https://example.com/other")}, errs.Immutable},
			"no URL":          {free.ID, link.Change{URL: to("nothing")}, errs.InvalidURL},
			"a loop":          {free.ID, link.Change{URL: to("http://sho.rt/abc")}, errs.UnsafeURL},
			"expired already": {free.ID, link.Change{ExpiresAt: to(&past)}, errs.InvalidInput},
			"no redirect":     {free.ID, link.Change{RedirectStatus: to(200)}, errs.InvalidInput},
			"a long title":    {free.ID, link.Change{Title: to(&lines)}, errs.InvalidInput},
			"a stale state":   {free.ID, link.Change{Title: to[*string](nil), Seen: &later}, errs.Conflict},
			"a foreign link":  {foreign.ID, link.Change{}, errs.NotFound},
			"no link":         {id.New(id.Link), link.Change{}, errs.NotFound},
			"no id":           {"x\x00", link.Change{}, errs.NotFound},
		} {
			t.Run(name, func(t *testing.T) {
				c.change.ID = c.linkID
				if _, err := b.Edit.Update(t.Context(), b.Mine, c.change); !errs.Is(err, c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
			})
		}
		got, err := b.Get(t.Context(), b.Mine, free.ID)
		if err != nil || !got.UpdatedAt.Equal(free.UpdatedAt) || got.OriginalURL != free.OriginalURL {
			t.Errorf("what was refused has changed the link: %+v, %v", got, err)
		}
		if same := b.Change(t, fixed, link.Change{URL: to("https://example.com/fixed")}); same.Code != fixed.Code {
			t.Error("the URL that it has was refused")
		}
	})
}

// TestStore_UpdateConcurrently: of concurrent updates of the same version exactly one succeeds.
func TestStore_UpdateConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		var mu sync.Mutex
		won, lost := 0, 0
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				title := fmt.Sprint(i)
				_, err := b.Edit.Update(t.Context(), b.Mine,
					link.Change{ID: l.ID, Title: to(&title), Seen: &l.UpdatedAt})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case errs.Is(err, errs.Conflict):
					lost++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won != 1 || lost != 19 {
			t.Errorf("%d won, %d lost; want 1 and 19", won, lost)
		}
	})
}

func TestStore_Restore(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title := "kept"
		l := b.Make(t, creation.Input{URL: "https://example.com/", Title: &title})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		for range 2 { // restoring twice is restoring once
			got, err := b.Edit.Restore(t.Context(), b.Mine, l.ID)
			if err != nil || got.Status(b.Now) != routing.Active || *got.Title != title {
				t.Errorf("%+v: %v", got, err)
			}
		}
		linktest.Refused(b.Edit.Restore(t.Context(), b.Foreign, l.ID))(t, errs.NotFound, "a foreign link")
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		must.Value(b.DB.NewUpdate().Model(l).Set("disabled_at = ?", noon).WherePK().
			Exec(db.AsSystem(t.Context())))(t)
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t, errs.UnsafeURL,
			"a link that the operator has disabled")
	})
}
