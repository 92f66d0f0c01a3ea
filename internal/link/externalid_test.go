package link_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
)

// external is a change of the external id of a link.
func external(l *link.Link, to string) link.Change {
	return link.Change{ID: l.ID, ExternalID: optional.Set(optional.Of(to))}
}

func TestStore_CreateReturnsOnlyTheLinkWithTheExternalID(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		url, promo := "https://example.com/a", "promo"
		const taken = "EXTERNAL_ID_TAKEN"
		plain, _ := b.create(t, link.New{URL: "https://example.com/plain"})
		own, _ := b.create(t, link.New{URL: url, ExternalID: new("A-1"), Metadata: pairs("k", "v")})
		custom, _ := b.create(t, link.New{URL: url, CustomCode: &promo, ExternalID: new("A-2")})
		for name, c := range map[string]struct {
			in    link.New
			there *link.Link
			want  string
		}{
			"the same":                {in: link.New{URL: url, ExternalID: new("A-1"), Title: new("other")}, there: own},
			"none":                    {in: link.New{URL: url}, there: own},
			"another":                 {in: link.New{URL: url, ExternalID: new("A-9")}, want: "CONFLICT"},
			"in other letters":        {in: link.New{URL: url, ExternalID: new("a-1")}, want: "CONFLICT"},
			"with a space":            {in: link.New{URL: url, ExternalID: new("A-1 ")}, want: "CONFLICT"},
			"of a link without":       {in: link.New{URL: "https://example.com/plain", ExternalID: new("A-9")}, want: "CONFLICT"},
			"the same with a code":    {in: link.New{URL: url, CustomCode: &promo, ExternalID: new("A-2")}, there: custom},
			"another with a code":     {in: link.New{URL: url, CustomCode: &promo, ExternalID: new("A-9")}, want: "CONFLICT"},
			"taken":                   {in: link.New{URL: "https://example.com/new", ExternalID: new("A-1")}, want: taken},
			"taken, of a random code": {in: link.New{URL: url, Strategy: new(link.Random), ExternalID: new("A-1")}, want: taken},
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
		l, _, err := b.Create(t.Context(), b.Foreign, link.New{URL: url, ExternalID: new("A-1")})
		if err != nil || l.ID == own.ID {
			t.Errorf("in another workspace: %v", err)
		}
		if l, err := b.Get(t.Context(), b.Mine, plain.ID); err != nil || l.ExternalID != nil || l.Version != 1 {
			t.Errorf("a refused creation has changed %+v: %v", l, err)
		}
	})
}

func TestStore_CreateManyComparesExternalIDsInTheBatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		url := "https://example.com/a"
		results := b.createMany(t, link.SkipFailed,
			&link.New{URL: url, ExternalID: new("1")},
			&link.New{URL: url, ExternalID: new("1")},
			&link.New{URL: url},
			&link.New{URL: url, ExternalID: new("2")},
			&link.New{URL: "https://example.com/b", ExternalID: new("1")},
			&link.New{URL: url, Strategy: new(link.Random), ExternalID: new("3")},
			&link.New{URL: url, Strategy: new(link.Random), ExternalID: new("3")},
		)
		want := []string{"created", "there", "there", "CONFLICT", "EXTERNAL_ID_TAKEN", "created", "EXTERNAL_ID_TAKEN"}
		if diff := cmp.Diff(want, outcomes(results)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestStore_UpdateChangesExternalIDs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		one, _ := b.create(t, link.New{URL: "https://example.com/1", ExternalID: new("1")})
		two, _ := b.create(t, link.New{URL: "https://example.com/2", ExternalID: new("2")})
		three, _ := b.create(t, link.New{URL: "https://example.com/3"})
		for _, c := range []struct {
			name    string
			changes []link.Change
			want    []string
			ids     []string
		}{
			{"taken", []link.Change{external(three, "1")}, []string{"EXTERNAL_ID_TAKEN"}, []string{"1", "2", ""}},
			{"its own", []link.Change{external(one, "1")}, []string{"there"}, []string{"1", "2", ""}},
			{"exchanged", []link.Change{external(one, "2"), external(two, "1")}, []string{"there", "there"}, []string{"2", "1", ""}},
			{"given up", []link.Change{external(one, ""), external(three, "2")}, []string{"there", "there"},
				[]string{"", "1", "2"}},
			{"wanted twice", []link.Change{external(one, "9"), external(two, "9")}, []string{"there", "EXTERNAL_ID_TAKEN"},
				[]string{"9", "1", "2"}},
			{"in a circle", []link.Change{external(one, "1"), external(two, "2"), external(three, "3"), external(one, "1\n")},
				[]string{"there", "there", "there", "INVALID_INPUT"}, []string{"1", "2", "3"}},
			{"for a moment", []link.Change{external(one, "2"), external(one, "8")}, []string{"there", "there"},
				[]string{"8", "2", "3"}},
		} {
			results, err := b.UpdateMany(t.Context(), b.Mine, c.changes, link.SkipFailed)
			if diff := cmp.Diff(c.want, outcomes(results)); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
			}
			links, err := b.Many(t.Context(), b.Mine, one.ID, two.ID, three.ID)
			must.NoError(t, err)
			got := []string{}
			for _, l := range []*link.Link{one, two, three} {
				got = append(got, optional.Value(links[l.ID].ExternalID))
			}
			if diff := cmp.Diff(c.ids, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// TestStore_UpdatesRaceForExternalIDs: of concurrent calls that want one id, one gets it and the others
// fail with a user error.
func TestStore_UpdatesRaceForExternalIDs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		const n = 8
		results := make([]string, n)
		var all sync.WaitGroup
		for i := range n {
			l, _ := b.create(t, link.New{URL: fmt.Sprint("https://example.com/", i)})
			all.Go(func() {
				_, err := b.Update(t.Context(), b.Mine, external(l, "wanted"))
				results[i] = kindOf(err)
			})
		}
		all.Wait()
		got := map[string]int{}
		for _, r := range results {
			got[r]++
		}
		if diff := cmp.Diff(map[string]int{"": 1, "EXTERNAL_ID_TAKEN": n - 1}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestStore_ExternalIDLivesAsLongAsTheLink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", ExternalID: new("1"), Metadata: pairs("k", "v")})
		random, _ := b.create(t, link.New{URL: "https://example.com/b", Strategy: new(link.Random), ExternalID: new("2"),
			Metadata: pairs("k", "v")})
		for _, one := range []*link.Link{l, random} {
			must.Value(b.Delete(t.Context(), b.Mine, one.ID))(t)
		}
		if got, err := b.ByExternalID(t.Context(), b.Mine, "1"); err != nil || got.ID != l.ID || got.Metadata == "" {
			t.Errorf("deleted: %+v, %v", got, err)
		}
		b.refuse(t, link.New{URL: "https://example.com/c", ExternalID: new("2")}, errs.ExternalIDTaken)
		// Revived without an id, it has the one that it had.
		revived, created := b.create(t, link.New{URL: "https://example.com/a"})
		if created || revived.ID != l.ID || optional.Value(revived.ExternalID) != "1" || revived.Metadata != "" {
			t.Errorf("revived: %t, %+v", created, revived)
		}
		must.Value(b.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(b.Tombstones + time.Hour)
		b.CleanUp(t)
		if n, err := d.NewSelect().Table("link_metadata").Count(db.AsSystem(t.Context())); n != 0 || err != nil {
			t.Errorf("%d pairs of purged links: %v", n, err)
		}
		other, created := b.create(t, link.New{URL: "https://example.com/c", ExternalID: new("1")})
		if !created {
			t.Error("the id of a purged link is taken")
		}
		b.refuse(t, link.New{URL: "https://example.com/a", ExternalID: new("1")}, errs.ExternalIDTaken)
		if again, created := b.create(t, link.New{URL: "https://example.com/a", ExternalID: new("3")}); created ||
			optional.Value(again.ExternalID) != "3" || again.ID == other.ID {
			t.Errorf("revived with another id: %t, %+v", created, again)
		}
	})
}

func TestStore_ChecksOwnData(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var many []*link.Pair
		for i := range link.MaxPairs + 1 {
			many = append(many, &link.Pair{Key: fmt.Sprint("k", i)})
		}
		for name, in := range map[string]link.New{
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
				b.refuse(t, in, errs.InvalidInput)
			})
		}
		longest := link.New{URL: "https://example.com/good", ExternalID: new(strings.Repeat("ä", 255)), Metadata: many[:link.MaxPairs]}
		for _, p := range longest.Metadata {
			p.Value = strings.Repeat("𝄞", link.MaxPairValue)
		}
		l, _ := b.create(t, longest)
		got, err := b.Get(t.Context(), b.Mine, l.ID)
		if err != nil || *got.ExternalID != *longest.ExternalID {
			t.Fatalf("%+v, %v", got, err)
		}
		stored, err := got.Metadata.Pairs()
		if err != nil || len(stored) != link.MaxPairs || stored[0].Value != longest.Metadata[0].Value {
			t.Errorf("%d pairs, %v", len(stored), err)
		}
	})
}

// TestStore_RevertsOwnData: an id and data are part of versions and events, and a revert restores them
// unless another link has the id.
func TestStore_RevertsOwnData(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", ExternalID: new("1"),
			Metadata: append(pairs("b", "2"), pairs("a", "1")...)})
		changed := b.Change(t, l, link.Change{ExternalID: optional.Set[*string](nil), Metadata: optional.Set(pairs("c", "3"))})
		if changed.Version != 2 || changed.ExternalID != nil {
			t.Fatalf("%+v", changed)
		}
		versions, err := b.History.Versions(t.Context(), changed, 10, "")
		must.NoError(t, err)
		fields := versions.Items[0].Changes
		if len(fields) != 2 || *fields[0].Before != `"1"` || *fields[0].After != "null" ||
			*fields[1].Before != `[{"key":"a","value":"1"},{"key":"b","value":"2"}]` ||
			*fields[1].After != `[{"key":"c","value":"3"}]` {
			t.Errorf("%+v", fields)
		}
		again := b.Change(t, l, link.Change{Metadata: optional.Set(pairs("c", "3"))})
		if again.Version != 2 {
			t.Errorf("equal data has made version %d", again.Version)
		}
		reverted, err := b.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || optional.Value(reverted.ExternalID) != "1" || reverted.Metadata != l.Metadata {
			t.Errorf("%+v, %v", reverted, err)
		}
		must.Value(b.DB.NewUpdate().Table("link_versions").Set("snapshot = replace(snapshot, '\"externalId\":\"1\"', ?)",
			"\"externalId\":\"e\u0301\"").Where("link_id = ?", l.ID).Exec(db.AsSystem(t.Context())))(t)
		reverted, err = b.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || optional.Value(reverted.ExternalID) != "\u00e9" {
			t.Errorf("a version from before ids were normalized: %+v, %v", reverted, err)
		}
		b.Change(t, l, link.Change{ExternalID: optional.Set[*string](nil)})
		b.create(t, link.New{URL: "https://example.com/b", ExternalID: new("\u00e9")})
		if _, err := b.Revert(t.Context(), b.Mine, l.ID, 1, nil); !errs.Is(err, errs.ExternalIDTaken) {
			t.Errorf("a revert to an id that is taken: %v", err)
		}
	})
}

// TestStore_UpdateManyFailsChainsAtOnce: each link gives its external id to the next, and the last one wants an id
// that it cannot have. Then all keep theirs, in a number of statements that does not depend on their number.
func TestStore_UpdateManyFailsChainsAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var statements dbtest.Counter
		b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
		const links = 50
		in := urls(0, links)
		for i := range in {
			in[i].ExternalID = new(fmt.Sprint(i))
		}
		created := b.createMany(t, link.SkipFailed, in...)
		var changes []link.Change
		for i, r := range created[:links-1] {
			changes = append(changes, external(r.Link, fmt.Sprint(i+1)))
		}
		before := statements.Load()
		results := must.Value(b.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
		if n := statements.Load() - before; n > 10 {
			t.Errorf("%d statements", n)
		}
		for i, r := range results {
			if !errs.Is(r.Err, errs.ExternalIDTaken) {
				t.Errorf("%d: %v", i, r.Err)
			}
		}
		changes = append(changes, external(created[links-1].Link, "free"))
		results = must.Value(b.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
		for i, r := range results {
			if r.Err != nil {
				t.Errorf("with a free id at the end: %d: %v", i, r.Err)
			}
		}
	})
}
