package moderation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// operator is the operator of two workspaces.
type operator struct {
	*creationtest.World
	moderation *moderation.Store
}

func setupOperator(t *testing.T, d *db.DB) *operator {
	t.Helper()
	w := creationtest.New(t, d)
	return &operator{
		w,
		&moderation.Store{DB: d, Links: w.Links, Now: func() time.Time { return w.Now }},
	}
}

func TestStore_FindLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupOperator(t, d)
		title := "Ünïque summer sale"
		one := b.Make(t, creation.Input{URL: "https://example.com/One?b=2&a=1", Title: &title})
		promo := "promo"
		two := b.Make(t, creation.Input{URL: "https://example.com/two", CustomCode: &promo})
		theirs, _, err := b.Create(t.Context(), b.Foreign,
			creation.Input{URL: "https://example.com/two", CustomCode: &promo})
		must.NoError(t, err)
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
			found, err := b.moderation.FindLinks(t.Context(), what, 10)
			ids := []string{}
			for _, f := range found {
				ids = append(ids, f.ID)
				if f.ShortURL != b.ShortURLBelow(f.Slug, &f.Link) || f.Slug == "" || f.OriginalURL == "" {
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
		if found, err := b.moderation.FindLinks(t.Context(), "promo", 1); err != nil || len(found) != 1 {
			t.Errorf("of two at most one: %d: %v", len(found), err)
		}
		for _, what := range []string{"", " ", "a\nb", "\x00", "\xff"} {
			linktest.Refused(b.moderation.FindLinks(t.Context(), what, 10))(t, errs.InvalidInput, "%q", what)
		}
	})
}

func TestStore_CodeHolders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setupOperator(t, d)
		b.Candidate = func(canonical, workspaceID string, salt int) string {
			switch salt {
			case 0:
				return "login"
			case 1:
				return "AtTheRoot2" // of every URL in every workspace
			}
			return shortcode.Deterministic(canonical, workspaceID, salt)
		}
		const url = "https://example.com/wanted"
		own := b.Make(t, creationtest.Custom("https://example.com/own", b.Candidate(url, b.Mine.ID(), 2)))
		foreign, _, err := b.Create(t.Context(), b.Foreign, creation.Input{URL: "https://example.com/foreign"})
		must.NoError(t, err)
		both := b.Make(t, creationtest.Custom("https://example.com/both", foreign.Code))
		if _, _, err := b.Create(t.Context(), b.Foreign,
			creationtest.Custom("https://example.com/other", own.Code)); err != nil {
			t.Fatal(err) // a custom code of another workspace holds nothing
		}
		purged := b.Make(t, creation.Input{URL: "https://example.com/purged"})
		b.Remove(t, purged.ID)
		b.Now = b.Now.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		renamed := "UPDATE links SET code = ?, root_code = ? WHERE id = ?"
		code := b.Candidate(url, b.Mine.ID(), 3)
		must.Value(d.ExecContext(db.AsSystem(t.Context()), renamed, code, code, purged.ID))(t)

		candidates, err := b.moderation.CodeHolders(t.Context(), b.Mine.ID(), strings.ToUpper("https")+
			url[len("https"):])
		must.NoError(t, err)
		var got []string
		for _, c := range candidates {
			line := c.Code
			if c.Reserved {
				line += " reserved"
			}
			for _, l := range c.Holders {
				line += " " + l.ID + " of " + l.Slug
				if l.PurgedAt != nil {
					line += " purged"
				}
			}
			got = append(got, line)
		}
		want := []string{
			"login reserved", foreign.Code + " " + both.ID + " of mine " + foreign.ID + " of foreign",
			own.Code + " " + own.ID +
				" of mine",
			code + " " + purged.ID + " of mine purged",
		}
		for salt := 4; salt < shortcode.Salts; salt++ {
			want = append(want, b.Candidate(url, b.Mine.ID(), salt))
		}
		linktest.Equal(t, want, got, "difference")
		linktest.Refused(b.moderation.CodeHolders(t.Context(), b.Mine.ID(), "nothing"))(t, errs.InvalidURL, "no URL")
	})
}
