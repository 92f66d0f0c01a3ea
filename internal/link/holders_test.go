package link

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
)

func TestStore_Holders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.candidate = func(canonical, workspaceID string, salt int) string {
			switch salt {
			case 0:
				return "login"
			case 1:
				return "AtTheRoot2" // of every URL in every workspace
			}
			return shortcode.Deterministic(canonical, workspaceID, salt)
		}
		const url = "https://example.com/wanted"
		own, _ := b.create(t, custom("https://example.com/own", b.candidate(url, b.mine.ID(), 2)))
		foreign, _, err := b.Create(t.Context(), b.foreign, New{URL: "https://example.com/foreign"})
		if err != nil {
			t.Fatal(err)
		}
		both, _ := b.create(t, custom("https://example.com/both", foreign.Code))
		if _, _, err := b.Create(t.Context(), b.foreign, custom("https://example.com/other", own.Code)); err != nil {
			t.Fatal(err) // a custom code of another workspace holds nothing
		}
		purged, _ := b.create(t, New{URL: "https://example.com/purged"})
		err = d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return b.apply(ctx, tx, "", []change{{before: purged, after: scrub(purged, b.now)}})
		})
		if err != nil {
			t.Fatal(err)
		}
		renamed := "UPDATE links SET code = ?, root_code = ? WHERE id = ?"
		code := b.candidate(url, b.mine.ID(), 3)
		if _, err := d.ExecContext(db.AsSystem(t.Context()), renamed, code, code, purged.ID); err != nil {
			t.Fatal(err)
		}

		candidates, err := b.Holders(t.Context(), b.mine.ID(), strings.ToUpper("https")+url[len("https"):])
		if err != nil {
			t.Fatal(err)
		}
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
			"login reserved", foreign.Code + " " + both.ID + " of mine " + foreign.ID + " of foreign", own.Code + " " + own.ID + " of mine",
			code + " " + purged.ID + " of mine purged",
		}
		for salt := 4; salt < shortcode.Salts; salt++ {
			want = append(want, b.candidate(url, b.mine.ID(), salt))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := b.Holders(t.Context(), b.mine.ID(), "nothing"); !errs.Is(err, errs.InvalidURL) {
			t.Errorf("no URL: %v", err)
		}
	})
}
