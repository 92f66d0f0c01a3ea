package link_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

func TestStore_NotesAndTags(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		note := "first line\nsecond"
		l := b.Make(t,
			creation.Input{URL: "https://example.com/", Note: &note, Tags: []string{"spring", " Autumn ", "spring"}})
		if got := b.Tags(t, l); *l.Note != note || !cmp.Equal(got, []string{"Autumn", "spring"}) {
			t.Errorf("note %q, tags %q", *l.Note, got)
		}
		l = b.Change(t, l, link.Change{Tags: to([]string{"winter"}), Archived: to(true)})
		if got := b.Tags(t, l); !l.Archived() || *l.Note != note || !cmp.Equal(got, []string{"winter"}) {
			t.Errorf("%+v, tags %q", l, got)
		}
		l = b.Change(t, l, link.Change{Note: to[*string](nil)})
		if got := b.Tags(t, l); l.Note != nil || !cmp.Equal(got, []string{"winter"}) {
			t.Errorf("%+v, tags %q", l, got)
		}
		l = b.Change(t, l, link.Change{Tags: to[[]string](nil), Archived: to(false)})
		if got := b.Tags(t, l); l.Archived() || len(got) != 0 {
			t.Errorf("%+v, tags %q", l, got)
		}
		// A revived link has the fields of the new request.
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		again := b.Make(t, creation.Input{URL: "https://example.com/", Tags: []string{"new"}})
		if got := b.Tags(t, again); again.ID != l.ID || !cmp.Equal(got, []string{"new"}) {
			t.Errorf("%+v, tags %q", again, got)
		}
		long, many := strings.Repeat("n", linkfield.MaxNote+1), make([]string, linkfield.MaxTags+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for name, in := range map[string]creation.Input{
			"a long note":        {URL: "https://example.com/", Note: &long},
			"many tags":          {URL: "https://example.com/", Tags: many},
			"an empty tag":       {URL: "https://example.com/", Tags: []string{""}},
			"a tag of two lines": {URL: "https://example.com/", Tags: []string{"a\nb"}},
			"no clicks":          {URL: "https://example.com/", MaxClicks: new(int64)},
		} {
			t.Run(name, func(t *testing.T) {
				if _, _, err := b.Create(t.Context(), b.Mine, in); !errs.Is(err, errs.InvalidInput) {
					t.Error(err)
				}
			})
		}
	})
}

func TestStore_ChecksOwnData(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var many []*linkfield.Pair
		for i := range linkfield.MaxPairs + 1 {
			many = append(many, &linkfield.Pair{Key: fmt.Sprint("k", i)})
		}
		for name, in := range map[string]creation.Input{
			"no id":           {ExternalID: new("")},
			"a long id":       {ExternalID: new(strings.Repeat("ä", 256))},
			"a line break":    {ExternalID: new("a\nb")},
			"no text":         {ExternalID: new("a\xff")},
			"no key":          {Metadata: pairs("", "v")},
			"a bad key":       {Metadata: pairs("a b", "v")},
			"a long key":      {Metadata: pairs(strings.Repeat("a", 51), "v")},
			"a long value":    {Metadata: pairs("k", strings.Repeat("ä", 501))},
			"a zero":          {Metadata: pairs("k", "\x00")},
			"the same key":    {Metadata: append(pairs("k", "1"), pairs("k", "2")...)},
			"too many pairs":  {Metadata: many},
			"value not UTF-8": {Metadata: pairs("k", "\xff")},
		} {
			t.Run(name, func(t *testing.T) {
				in.URL = "https://example.com/bad"
				b.Refuse(t, in, errs.InvalidInput)
			})
		}
		longest := creation.Input{URL: "https://example.com/good", ExternalID: new(strings.Repeat("ä", 255)),
			Metadata: many[:linkfield.MaxPairs]}
		for _, p := range longest.Metadata {
			p.Value = strings.Repeat("𝄞", linkfield.MaxPairValue)
		}
		l := b.Make(t, longest)
		got, err := b.Get(t.Context(), b.Mine, l.ID)
		if err != nil || *got.ExternalID != *longest.ExternalID {
			t.Fatalf("%+v, %v", got, err)
		}
		stored, err := got.Metadata.Pairs()
		if err != nil || len(stored) != linkfield.MaxPairs || stored[0].Value != longest.Metadata[0].Value {
			t.Errorf("%d pairs, %v", len(stored), err)
		}
	})
}

func TestStore_ExternalIDLivesAsLongAsTheLink(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t,
			creation.Input{URL: "https://example.com/a", ExternalID: new("1"), Metadata: pairs("k", "v")})
		random := b.Make(t,
			creation.Input{URL: "https://example.com/b", Strategy: new(link.Random), ExternalID: new("2"),
				Metadata: pairs("k", "v")})
		for _, one := range []*link.Link{l, random} {
			must.Value(b.Edit.Delete(t.Context(), b.Mine, one.ID))(t)
		}
		if got, err := b.ByExternalID(t.Context(), b.Mine, "1"); err != nil || got.ID != l.ID || got.Metadata == "" {
			t.Errorf("deleted: %+v, %v", got, err)
		}
		b.Refuse(t, creation.Input{URL: "https://example.com/c", ExternalID: new("2")}, errs.ExternalIDTaken)
		// Revived without an id, it has the one that it had.
		revived, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/a"})
		if created || revived.ID != l.ID || optional.Value(revived.ExternalID) != "1" || revived.Metadata != "" {
			t.Errorf("revived: %t, %+v", created, revived)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(linktest.Tombstones + time.Hour)
		b.PurgeEnded(t)
		if n, err := b.DB.NewSelect().Table("link_metadata").Count(db.AsSystem(t.Context())); n != 0 || err != nil {
			t.Errorf("%d pairs of purged links: %v", n, err)
		}
		other, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/c", ExternalID: new("1")})
		if !created {
			t.Error("the id of a purged link is taken")
		}
		b.Refuse(t, creation.Input{URL: "https://example.com/a", ExternalID: new("1")}, errs.ExternalIDTaken)
		again, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/a", ExternalID: new("3")})
		if created || optional.Value(again.ExternalID) != "3" || again.ID == other.ID {
			t.Errorf("revived with another id: %t, %+v", created, again)
		}
	})
}
