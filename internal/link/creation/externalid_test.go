package creation

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
)

func TestStore_CreateReturnsOnlyTheLinkWithTheExternalID(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		url, promo := "https://example.com/a", "promo"
		const taken = "EXTERNAL_ID_TAKEN"
		plain, _ := b.create(t, Input{URL: "https://example.com/plain"})
		own, _ := b.create(t, Input{URL: url, ExternalID: new("A-1"), Metadata: pairs("k", "v")})
		custom, _ := b.create(t, Input{URL: url, CustomCode: &promo, ExternalID: new("A-2")})
		for name, c := range map[string]struct {
			in    Input
			there *link.Link
			want  string
		}{
			"the same":         {in: Input{URL: url, ExternalID: new("A-1"), Title: new("other")}, there: own},
			"none":             {in: Input{URL: url}, there: own},
			"another":          {in: Input{URL: url, ExternalID: new("A-9")}, want: "CONFLICT"},
			"in other letters": {in: Input{URL: url, ExternalID: new("a-1")}, want: "CONFLICT"},
			"with a space":     {in: Input{URL: url, ExternalID: new("A-1 ")}, want: "CONFLICT"},
			"of a link without": {in: Input{URL: "https://example.com/plain", ExternalID: new("A-9")},
				want: "CONFLICT"},
			"the same with a code": {in: Input{URL: url, CustomCode: &promo, ExternalID: new("A-2")}, there: custom},
			"another with a code": {in: Input{URL: url, CustomCode: &promo, ExternalID: new("A-9")},
				want: "CONFLICT"},
			"taken": {in: Input{URL: "https://example.com/new", ExternalID: new("A-1")}, want: taken},
			"taken, of a random code": {in: Input{URL: url, Strategy: new(link.Random), ExternalID: new("A-1")},
				want: taken},
		} {
			t.Run(name, func(t *testing.T) {
				l, created, err := b.Create(t.Context(), b.Mine, c.in)
				if kindOf(err) != c.want || created {
					t.Errorf("created %t, %v", created, err)
				}
				if c.want == "CONFLICT" && !strings.Contains(err.Error(), "upsertLink") {
					t.Error("the error does not name upsertLink:", err)
				}
				if c.there != nil && (l.ID != c.there.ID || l.Title != nil) {
					t.Errorf("%+v, want %s", l, c.there.ID)
				}
			})
		}
		l, _, err := b.Create(t.Context(), b.Foreign, Input{URL: url, ExternalID: new("A-1")})
		if err != nil || l.ID == own.ID {
			t.Errorf("in another workspace: %v", err)
		}
		if l, err := b.Get(t.Context(), b.Mine, plain.ID); err != nil || l.ExternalID != nil || l.Version != 1 {
			t.Errorf("a refused creation has changed %+v: %v", l, err)
		}
	})
}

func TestStore_CreateManyComparesExternalIDsInTheBatch(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		url := "https://example.com/a"
		results := b.createMany(t, link.SkipFailed,
			&Input{URL: url, ExternalID: new("1")},
			&Input{URL: url, ExternalID: new("1")},
			&Input{URL: url},
			&Input{URL: url, ExternalID: new("2")},
			&Input{URL: "https://example.com/b", ExternalID: new("1")},
			&Input{URL: url, Strategy: new(link.Random), ExternalID: new("3")},
			&Input{URL: url, Strategy: new(link.Random), ExternalID: new("3")},
		)
		want := []string{"created", "there", "there", "CONFLICT", "EXTERNAL_ID_TAKEN", "created", "EXTERNAL_ID_TAKEN"}
		linktest.Equal(t, want, outcomes(results), "difference")
	})
}
