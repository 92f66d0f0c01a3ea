package link

import (
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

func TestTheOperatorFinds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		title := "Ünïque summer sale"
		one, _ := b.create(t, New{URL: "https://example.com/One?b=2&a=1", Title: &title})
		custom := "promo"
		two, _ := b.create(t, New{URL: "https://example.com/two", CustomCode: &custom})
		theirs, _, err := b.Create(t.Context(), b.foreign, New{URL: "https://example.com/two", CustomCode: &custom})
		if err != nil {
			t.Fatal(err)
		}
		for what, want := range map[string][]string{
			one.ID:                                {one.ID},
			one.Code:                              {one.ID},
			"SUMMER":                              {one.ID},
			"ünÏque":                              {one.ID},
			"HTTPS://EXAMPLE.com:443/One?a=1&b=2": {one.ID},
			"http://sho.rt/" + one.Code:           {one.ID},
			"http://sho.rt/mine/promo?utm=1":      {two.ID},
			"http://sho.rt/foreign/promo":         {theirs.ID},
			"promo":                               {theirs.ID, two.ID}, // newest first
			"https://example.com/two":             {theirs.ID, two.ID},
			"nothing of the kind":                 {},
			"50%":                                 {},
			"http://sho.rt/nothing":               {},
			id.New(id.Link):                       {},
		} {
			found, err := b.Find(t.Context(), what, 10)
			ids := []string{}
			for _, f := range found {
				ids = append(ids, f.ID)
				if f.ShortURL != b.ShortURLOf(f.Slug, f.Code, f.RootCode) || f.Slug == "" || f.OriginalURL == "" {
					t.Errorf("%s: %+v", what, f)
				}
			}
			if len(ids) != len(want) || err != nil {
				t.Errorf("%s: found %q, want %q: %v", what, ids, want, err)
				continue
			}
			for i := range want {
				if ids[i] != want[i] {
					t.Errorf("%s: found %q, want %q", what, ids, want)
				}
			}
		}
		if found, err := b.Find(t.Context(), "promo", 1); err != nil || len(found) != 1 {
			t.Errorf("of two at most one: %d: %v", len(found), err)
		}
		for _, what := range []string{"", " ", "a\nb", "\x00", "\xff"} {
			if _, err := b.Find(t.Context(), what, 10); !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%q: %v", what, err)
			}
		}
	})
}
