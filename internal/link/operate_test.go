package link

import (
	"testing"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/routing"
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
				if f.ShortURL != b.shortURL(f.Slug, f.Code, f.RootCode) || f.Slug == "" || f.OriginalURL == "" {
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

func TestTheOperatorDisablesOneLink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, New{URL: "https://example.com/"})
		other, _ := b.create(t, New{URL: "https://example.com/other"})
		for _, step := range []struct{ disabled, changes bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
			got, changed, err := b.SetDisabled(t.Context(), l.ID, step.disabled)
			if err != nil || changed != step.changes || (got.DisabledAt != nil) != step.disabled {
				t.Fatalf("%+v: changed %t: %v", step, changed, err)
			}
			if got := b.statusOf(t, l.ID); (got == routing.Disabled) != step.disabled {
				t.Errorf("%+v: the link is %s", step, got)
			}
		}
		if got := b.statusOf(t, other.ID); got != routing.Active {
			t.Errorf("the other link is %s", got)
		}
		var actions []audit.Action
		err := d.NewSelect().Table("audit_events").Column("action").Where("target_id = ?", l.ID).Where("actor_id = ''").
			Order("id").Scan(db.AsSystem(t.Context()), &actions)
		if err != nil || len(actions) != 2 || actions[0] != audit.LinkDisabled || actions[1] != audit.LinkEnabled {
			t.Errorf("the audit log has %v: %v", actions, err)
		}
		for _, linkID := range []string{"", "promo", id.New(id.Link), l.ID + "0"} {
			if _, _, err := b.SetDisabled(t.Context(), linkID, true); !errs.Is(err, errs.NotFound) {
				t.Errorf("%q: %v", linkID, err)
			}
		}
	})
}

// statusOf is the link's state as the database has it.
func (b *bundle) statusOf(t *testing.T, linkID string) routing.Status {
	t.Helper()
	l, err := find(db.AsSystem(t.Context()), b.DB, b.mine, "id = ?", linkID)
	if err != nil {
		t.Fatal(err)
	}
	return l.Status(b.now)
}
