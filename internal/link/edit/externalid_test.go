package edit_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// external is a change of the external id of a link.
func external(l *link.Link, to string) link.Change {
	return link.Change{ID: l.ID, ExternalID: optional.Set(optional.Of(to))}
}

func TestStore_UpdateChangesExternalIDs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one := b.Make(t, creation.Input{URL: "https://example.com/1", ExternalID: new("1")})
		two := b.Make(t, creation.Input{URL: "https://example.com/2", ExternalID: new("2")})
		three := b.Make(t, creation.Input{URL: "https://example.com/3"})
		for _, c := range []struct {
			name    string
			changes []link.Change
			want    []string
			ids     []string
		}{
			{"taken", []link.Change{external(three, "1")}, []string{"EXTERNAL_ID_TAKEN"}, []string{"1", "2", ""}},
			{"its own", []link.Change{external(one, "1")}, []string{"there"}, []string{"1", "2", ""}},
			{"exchanged", []link.Change{external(one, "2"), external(two, "1")}, []string{"there", "there"},
				[]string{"2", "1", ""}},
			{"given up", []link.Change{external(one, ""), external(three, "2")}, []string{"there", "there"},
				[]string{"", "1", "2"}},
			{"wanted twice", []link.Change{external(one, "9"), external(two, "9")},
				[]string{"there", "EXTERNAL_ID_TAKEN"},
				[]string{"9", "1", "2"}},
			{"in a circle",
				[]link.Change{external(one, "1"), external(two, "2"), external(three, "3"), external(one, "1\n")},
				[]string{"there", "there", "there", "INVALID_INPUT"}, []string{"1", "2", "3"}},
			{"for a moment", []link.Change{external(one, "2"), external(one, "8")}, []string{"there", "there"},
				[]string{"8", "2", "3"}},
		} {
			results, err := b.Edit.UpdateMany(t.Context(), b.Mine, c.changes, link.SkipFailed)
			if diff := cmp.Diff(c.want, outcomes(results)); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
			}
			links, err := b.Many(t.Context(), b.Mine, one.ID, two.ID, three.ID)
			must.NoError(t, err)
			got := []string{}
			for _, l := range []*link.Link{one, two, three} {
				got = append(got, optional.Value(links[l.ID].ExternalID))
			}
			linktest.Equal(t, c.ids, got, "%s", c.name)
		}
	})
}

// TestStore_UpdatesRaceForExternalIDs: of concurrent calls that want one id, one gets it and the
// others fail with a user error.
func TestStore_UpdatesRaceForExternalIDs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 8
		results := make([]string, n)
		var all sync.WaitGroup
		for i := range n {
			l := b.Make(t, creation.Input{URL: fmt.Sprint("https://example.com/", i)})
			all.Go(func() {
				_, err := b.Edit.Update(t.Context(), b.Mine, external(l, "wanted"))
				results[i] = kindOf(err)
			})
		}
		all.Wait()
		got := map[string]int{}
		for _, r := range results {
			got[r]++
		}
		linktest.Equal(t, map[string]int{"": 1, "EXTERNAL_ID_TAKEN": n - 1}, got, "difference")
	})
}

// TestStore_RevertsOwnData: an id and data are part of versions and events, and a revert restores
// them unless another link has the id.
func TestStore_RevertsOwnData(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", ExternalID: new("1"),
			Metadata: append(pairs("b", "2"), pairs("a", "1")...)})
		changed := b.Change(t, l,
			link.Change{ExternalID: optional.Set[*string](nil), Metadata: optional.Set(pairs("c", "3"))})
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
		reverted, err := b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || optional.Value(reverted.ExternalID) != "1" || reverted.Metadata != l.Metadata {
			t.Errorf("%+v, %v", reverted, err)
		}
		must.Value(b.DB.NewUpdate().Table("link_versions").
			Set("snapshot = replace(snapshot, '\"externalId\":\"1\"', ?)",
				"\"externalId\":\"e\u0301\"").Where("link_id = ?", l.ID).Exec(db.AsSystem(t.Context())))(t)
		reverted, err = b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || optional.Value(reverted.ExternalID) != "\u00e9" {
			t.Errorf("a version from before ids were normalized: %+v, %v", reverted, err)
		}
		b.Change(t, l, link.Change{ExternalID: optional.Set[*string](nil)})
		b.Make(t, creation.Input{URL: "https://example.com/b", ExternalID: new("\u00e9")})
		linktest.Refused(b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil))(t, errs.ExternalIDTaken,
			"a revert to an id that is taken")
	})
}

// TestStore_UpdateManyFailsChainsAtOnce: each link gives its external id to the next, and the last
// one wants an id that it cannot have. Then all keep theirs, in a number of statements that does
// not depend on their number.
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
		created := b.MakeMany(t, link.SkipFailed, in...)
		var changes []link.Change
		for i, r := range created[:links-1] {
			changes = append(changes, external(r.Link, fmt.Sprint(i+1)))
		}
		before := statements.Load()
		results := must.Value(b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
		if n := statements.Load() - before; n > 10 {
			t.Errorf("%d statements", n)
		}
		for i, r := range results {
			if !errs.Is(r.Err, errs.ExternalIDTaken) {
				t.Errorf("%d: %v", i, r.Err)
			}
		}
		changes = append(changes, external(created[links-1].Link, "free"))
		results = must.Value(b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
		for i, r := range results {
			if r.Err != nil {
				t.Errorf("with a free id at the end: %d: %v", i, r.Err)
			}
		}
	})
}
