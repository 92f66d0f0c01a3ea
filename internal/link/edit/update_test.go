package edit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

func TestStore_UpdateChangesSetFields(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title, code, soon := "before", "promo", b.Now.Add(time.Hour)
		l := b.Make(t,
			creation.Input{URL: "https://example.com/a", CustomCode: &code,
				Fields: linkfield.Change{Title: optional.Set(&title), ExpiresAt: optional.Set(&soon)}})
		after := "after"
		got := b.Change(t, l, linkfield.Change{Title: to(&after), RedirectStatus: to(301)})
		if *got.Title != "after" || got.RedirectStatus != 301 || !got.ExpiresAt.Equal(soon) || got.Code != code ||
			!got.UpdatedAt.After(l.UpdatedAt) {
			t.Errorf("%+v", got)
		}
		got = b.Change(t, l, linkfield.Change{Title: to[*string](nil), ExpiresAt: to[*time.Time](nil),
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
			change linkfield.Change
			want   errs.Kind
		}{
			"another URL":     {fixed.ID, linkfield.Change{URL: to("https://example.com/other")}, errs.Immutable},
			"no URL":          {free.ID, linkfield.Change{URL: to("nothing")}, errs.InvalidURL},
			"a loop":          {free.ID, linkfield.Change{URL: to("http://sho.rt/abc")}, errs.UnsafeURL},
			"expired already": {free.ID, linkfield.Change{ExpiresAt: to(&past)}, errs.InvalidInput},
			"no redirect":     {free.ID, linkfield.Change{RedirectStatus: to(200)}, errs.InvalidInput},
			"a long title":    {free.ID, linkfield.Change{Title: to(&lines)}, errs.InvalidInput},
			"a stale state":   {free.ID, linkfield.Change{Title: to[*string](nil), Seen: &later}, errs.Conflict},
			"a foreign link":  {foreign.ID, linkfield.Change{}, errs.NotFound},
			"no link":         {id.New(id.Link), linkfield.Change{}, errs.NotFound},
			"no id":           {"x\x00", linkfield.Change{}, errs.NotFound},
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
		if same := b.Change(t, fixed, linkfield.Change{URL: to("https://example.com/fixed")}); same.Code != fixed.Code {
			t.Error("the URL that it has was refused")
		}
	})
}

// TestStore_UpdateConcurrently: of concurrent updates of the same version exactly one succeeds.
func TestStore_UpdateConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		got := linktest.AtOnce(20, func(i int) string {
			_, err := b.Edit.Update(t.Context(), b.Mine,
				linkfield.Change{ID: l.ID, Title: to(new(fmt.Sprint(i))), Seen: &l.UpdatedAt})
			return kindOf(err)
		})
		wanttest.Equal(t, map[string]int{"": 1, "CONFLICT": 19}, got, "outcomes")
	})
}

func TestStore_Restore(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title := "kept"
		l := b.Make(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{Title: optional.Set(&title)}})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		for range 2 { // restoring twice is restoring once
			got, err := b.Edit.Restore(t.Context(), b.Mine, l.ID)
			if err != nil || got.Status(b.Now) != routing.Active || *got.Title != title {
				t.Errorf("%+v: %v", got, err)
			}
		}
		linktest.Refused(b.Edit.Restore(t.Context(), b.Foreign, l.ID))(t, errs.NotFound, "a foreign link")
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Set(t, l, "disabled_at = ?", noon)
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t, errs.UnsafeURL,
			"a link that the operator has disabled")
	})
}

// TestStore_ChangeWithoutEffect leaves no trace.
func TestStore_ChangeWithoutEffect(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/0",
			Fields: linkfield.Change{Title: optional.Set(new("a")), Tags: optional.Set([]string{"x", "y"})}})
		b.Tick()
		same := b.Change(t, l, linkfield.Change{Title: to(new("a")), Tags: to([]string{"y", "x"})})
		if stored := b.Reload(t, l); !same.UpdatedAt.Equal(l.UpdatedAt) || !stored.UpdatedAt.Equal(l.UpdatedAt) {
			t.Errorf("updated at %s, stored as %s, want %s", same.UpdatedAt, stored.UpdatedAt, l.UpdatedAt)
		}
		if n := len(b.AllVersions(t, l)); n != 1 {
			t.Errorf("%d versions", n)
		}
		b.Events(t, 1)
	})
}

// TestStore_RevertRestoresAVersion reverts to each version: the snapshots are equal, and deletion
// stays.
func TestStore_RevertRestoresAVersion(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		rule := &routing.Rule{
			Targets: []*routing.Target{{URL: new("https://example.com/target"), MaxClicks: new(int64(5))}}}
		l := b.Make(t,
			creation.Input{URL: "https://example.com/0", Strategy: new(link.Random),
				Fields: linkfield.Change{Tags: optional.Set([]string{"x"}),
					Routing: optional.Set(&routing.Change{Rules: optional.Set([]*routing.Rule{rule})})}})
		b.Tick()
		expires := b.Now.Add(time.Hour)
		b.Change(t, l, linkfield.Change{
			URL: to("https://example.com/1"), Title: to(new("second")), Tags: to([]string{}), ExpiresAt: to(&expires),
			Routing: to[*routing.Change](nil), MaxClicks: to(new(int64(3))),
		})
		for _, number := range []int{1, 2} {
			b.Tick()
			got := must.Value(b.Edit.Revert(t.Context(), b.Mine, l.ID, number, nil))(t)
			all := b.AllVersions(t, l)
			if diff := cmp.Diff(all[len(all)-number].Snapshot, all[0].Snapshot); diff != "" ||
				all[0].Cause != link.CauseReverted {
				t.Errorf("%s of version %d (-want +got):\n%s", all[0].Cause, number, diff)
			}
			if got.Version != all[0].Number {
				t.Errorf("version %d, want %d", got.Version, all[0].Number)
			}
			if number == 1 && got.CheckAt.After(b.Now) {
				t.Error("the restored URLs are not checked")
			}
		}
		before := len(b.AllVersions(t, l))
		if _, err := b.Edit.Revert(t.Context(), b.Mine, l.ID, 2, nil); err != nil ||
			len(b.AllVersions(t, l)) != before {
			t.Errorf("reverting to the present state: %d versions, want %d: %v", len(b.AllVersions(t, l)), before, err)
		}
		linktest.Refused(b.Edit.Revert(t.Context(), b.Mine, l.ID, 99, nil))(t, errs.NotFound, "an unknown version")
		stale := noon
		linktest.Refused(b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, &stale))(t, errs.Conflict, "a stale updatedAt")
		linktest.Refused(b.Edit.Revert(t.Context(), b.Foreign, l.ID, 1, nil))(t, errs.NotFound, "of another workspace")
	})
}

// TestStore_RevertKeepsPromises checks that a revert neither shortens the tombstone of a link nor
// bypasses the operator.
func TestStore_RevertKeepsPromises(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, later := noon.Add(time.Hour), noon.AddDate(1, 0, 0)
		l := b.Make(t, creation.Input{URL: "https://example.com/0", Strategy: new(link.Random),
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon),
				Routing: optional.Set(&routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))})}})
		b.Tick()
		b.Change(t, l, linkfield.Change{ExpiresAt: to(&later), Routing: to[*routing.Change](nil)})
		b.Now = noon.AddDate(0, 6, 0) // much longer than the tombstone
		got, err := b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || got.Status(b.Now) != routing.Expired {
			t.Fatalf("%s, %v", got.Status(b.Now), err)
		}
		b.PurgeEnded(t)
		if n := len(b.AllVersions(t, l)); n != 3 {
			t.Errorf("%d versions are left after a clean-up", n)
		}
		b.Set(t, l, "disabled_at = ?", noon)
		_, err = b.Edit.Revert(t.Context(), b.Mine, l.ID, 2, nil)
		if e := errs.From(err); e == nil || e.Kind != errs.UnsafeURL {
			t.Errorf("other URLs of a disabled link: %v", err)
		}
	})
}

// external is a change of the external id of a link.
func external(l *link.Link, to string) linkfield.Change {
	return linkfield.Change{ID: l.ID, ExternalID: optional.Set(optional.Of(to))}
}

func TestStore_UpdateChangesExternalIDs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one := b.Make(t, creation.Input{URL: "https://example.com/1",
			Fields: linkfield.Change{ExternalID: optional.Set(new("1"))}})
		two := b.Make(t, creation.Input{URL: "https://example.com/2",
			Fields: linkfield.Change{ExternalID: optional.Set(new("2"))}})
		three := b.Make(t, creation.Input{URL: "https://example.com/3"})
		for _, c := range []struct {
			name    string
			changes []linkfield.Change
			want    []string
			ids     []string
		}{
			{"taken", []linkfield.Change{external(three, "1")}, []string{"EXTERNAL_ID_TAKEN"}, []string{"1", "2", ""}},
			{"its own", []linkfield.Change{external(one, "1")}, []string{"there"}, []string{"1", "2", ""}},
			{"exchanged", []linkfield.Change{external(one, "2"), external(two, "1")}, []string{"there", "there"},
				[]string{"2", "1", ""}},
			{"given up", []linkfield.Change{external(one, ""), external(three, "2")}, []string{"there", "there"},
				[]string{"", "1", "2"}},
			{"wanted twice", []linkfield.Change{external(one, "9"), external(two, "9")},
				[]string{"there", "EXTERNAL_ID_TAKEN"},
				[]string{"9", "1", "2"}},
			{"in a circle",
				[]linkfield.Change{external(one, "1"), external(two, "2"), external(three, "3"), external(one, "1\n")},
				[]string{"there", "there", "there", "INVALID_INPUT"}, []string{"1", "2", "3"}},
			{"for a moment", []linkfield.Change{external(one, "2"), external(one, "8")}, []string{"there", "there"},
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
			wanttest.Equal(t, c.ids, got, "%s", c.name)
		}
	})
}

// TestStore_UpdatesRaceForExternalIDs: of concurrent calls that want one id, one gets it and the
// others fail with a user error.
func TestStore_UpdatesRaceForExternalIDs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		links := b.MakeMany(t, link.SkipFailed, urls(0, 8)...)
		got := linktest.AtOnce(len(links), func(i int) string {
			_, err := b.Edit.Update(t.Context(), b.Mine, external(links[i].Link, "wanted"))
			return kindOf(err)
		})
		wanttest.Equal(t, map[string]int{"": 1, "EXTERNAL_ID_TAKEN": len(links) - 1}, got, "outcomes")
	})
}

// TestStore_RevertsOwnData: an id and data are part of versions and events, and a revert restores
// them unless another link has the id.
func TestStore_RevertsOwnData(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExternalID: optional.Set(new("1")), Metadata: optional.Set(append(pairs("b", "2"),
				pairs("a", "1")...))}})
		changed := b.Change(t, l,
			linkfield.Change{ExternalID: optional.Set[*string](nil), Metadata: optional.Set(pairs("c", "3"))})
		if changed.Version != 2 || changed.ExternalID != nil {
			t.Fatalf("%+v", changed)
		}
		versions, err := b.History.Versions(t.Context(), changed, new(10), "")
		must.NoError(t, err)
		fields := versions.Items[0].Changes
		if len(fields) != 2 || *fields[0].Before != `"1"` || *fields[0].After != "null" ||
			*fields[1].Before != `[{"key":"a","value":"1"},{"key":"b","value":"2"}]` ||
			*fields[1].After != `[{"key":"c","value":"3"}]` {
			t.Errorf("%+v", fields)
		}
		again := b.Change(t, l, linkfield.Change{Metadata: optional.Set(pairs("c", "3"))})
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
		b.Change(t, l, linkfield.Change{ExternalID: optional.Set[*string](nil)})
		b.Make(t, creation.Input{URL: "https://example.com/b",
			Fields: linkfield.Change{ExternalID: optional.Set(new("\u00e9"))}})
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
			in[i].Fields.ExternalID = optional.Set(new(fmt.Sprint(i)))
		}
		created := b.MakeMany(t, link.SkipFailed, in...)
		var changes []linkfield.Change
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
