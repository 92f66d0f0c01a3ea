package creation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// upsert returns the link and the outcome, or the code of the error.
func (b *bundle) upsertLink(t *testing.T, u Upsert) (*link.Link, string) {
	t.Helper()
	one, err := b.Upsert(t.Context(), b.Mine, &u)
	if err != nil {
		if !errs.From(err).Kind.IsUserError() {
			t.Fatal(err)
		}
		return nil, kindOf(err)
	}
	return one.Link, string(one.Outcome)
}

// TestStore_UpsertTellsWhatItDid walks one link through all outcomes.
func TestStore_UpsertTellsWhatItDid(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const url = "https://example.com/a"
		past, soon := b.Now.Add(-time.Hour), b.Now.Add(time.Hour)
		rules := func(to string) optional.Edit[*routing.Change] {
			return optional.Set(
				&routing.Change{Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: &to}}}})})
		}
		var l *link.Link
		for _, c := range []struct {
			name string
			in   Upsert
			want string
		}{
			{"new", Upsert{URL: url, Fields: linkfield.Change{Title: to(new("one")), Tags: to([]string{"b", "a"}),
				Metadata: to(pairs("k", "v")), ExpiresAt: to(&soon), Archived: to(true), StatsPublic: to(true),
				Routing: rules("https://example.com/r")}}, "CREATED"},
			{"equal", Upsert{URL: url, Fields: linkfield.Change{Title: to(new("one")), Tags: to([]string{"a", "b"}),
				Metadata: to(pairs("k", "v")), ExpiresAt: to(&soon), Archived: to(true), StatsPublic: to(true),
				Routing: rules("https://example.com/r")}}, "UNCHANGED"},
			{"nothing given", Upsert{URL: url}, "UNCHANGED"},
			{"other tags", Upsert{URL: url, Fields: linkfield.Change{Tags: to([]string{"a"})}}, "UPDATED"},
			{"other metadata", Upsert{URL: url, Fields: linkfield.Change{Metadata: to(pairs("k", "w"))}}, "UPDATED"},
			{"other routing", Upsert{URL: url, Fields: linkfield.Change{Routing: rules("https://example.com/s")}},
				"UPDATED"},
			{"no routing", Upsert{URL: url, Fields: linkfield.Change{Routing: to[*routing.Change](nil)}}, "UPDATED"},
			{"other URL", Upsert{URL: "https://example.com/b"}, "UPDATED"},
			{"other spelling", Upsert{URL: "https://EXAMPLE.com/b"}, "UPDATED"},
			{"bad URL", Upsert{URL: "ftp://example.com"}, "INVALID_URL"},
			{"circular URL", Upsert{URL: "http://sho.rt/x"}, "UNSAFE_URL"},
			{"bad title", Upsert{URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{Title: to(new("a\x00"))}},
				"INVALID_INPUT"},
			{"in the past", Upsert{URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{ExpiresAt: to(&past)}},
				"INVALID_INPUT"},
			{"another strategy", Upsert{URL: "https://EXAMPLE.com/b", Strategy: new(link.Counter)}, "IMMUTABLE"},
			{"the strategy", Upsert{URL: "https://EXAMPLE.com/b", Strategy: new(link.Random)}, "UNCHANGED"},
			{"another code", Upsert{URL: "https://EXAMPLE.com/b", CustomCode: new("promo")}, "IMMUTABLE"},
		} {
			c.in.ExternalID = "1"
			got, outcome := b.upsertLink(t, c.in)
			if outcome != c.want {
				t.Fatalf("%s: %s, want %s", c.name, outcome, c.want)
			}
			if got == nil {
				continue
			}
			if l == nil {
				l = got
			}
			stored, err := b.Get(t.Context(), b.Mine, got.ID)
			if err != nil || got.ID != l.ID || got.Version != stored.Version || !got.UpdatedAt.Equal(stored.UpdatedAt) {
				t.Fatalf("%s: returned %+v, stored %+v: %v", c.name, got, stored, err)
			}
		}
		b.Now = b.Now.Add(2 * time.Hour) // it has expired
		same := Upsert{ExternalID: "1", URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{ExpiresAt: to(&soon)}}
		if _, outcome := b.upsertLink(t, same); outcome != "UNCHANGED" {
			t.Errorf("an expired link: %s", outcome)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		revived, outcome := b.upsertLink(t, Upsert{ExternalID: "1", URL: "https://EXAMPLE.com/b"})
		if outcome != "UPDATED" || revived.ID != l.ID || revived.DeletedAt != nil || *revived.Title != "one" ||
			revived.VersionCause != link.CauseRevived {
			t.Errorf("revived: %s, %+v", outcome, revived)
		}
		if n, _, err := b.Quota.Used(t.Context(), b.Mine); n != 1 || err != nil {
			t.Errorf("%d links have consumed the quota: %v", n, err)
		}
		b.ExpectConsistent(t)
	})
}

func TestStore_UpsertAdoptsLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		url := func(s string) string { return "https://example.com/" + s }
		plain, _ := b.create(t, Input{URL: url("plain")})
		custom, _ := b.create(t, Input{URL: url("custom"), CustomCode: new("custom")})
		b.create(t, Input{URL: url("own"), ExternalID: new("own")})
		b.create(t, Input{URL: url("own"), CustomCode: new("own"), ExternalID: new("own-2")})
		deleted, _ := b.create(t, Input{URL: url("deleted")})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		for name, c := range map[string]struct {
			in      Upsert
			want    string
			adopted *link.Link
		}{
			"a URL":  {Upsert{URL: url("plain"), Strategy: new(link.Deterministic)}, "UPDATED", plain},
			"a code": {Upsert{URL: url("other"), CustomCode: new("custom")}, "UPDATED", custom},
			"a deleted link": {Upsert{URL: url("deleted"), Strategy: new(link.Deterministic)}, "UPDATED",
				deleted},
			"a URL of another id":  {Upsert{URL: url("own"), Strategy: new(link.Deterministic)}, "CONFLICT", nil},
			"a code of another id": {Upsert{URL: url("own"), CustomCode: new("own")}, "CODE_TAKEN", nil},
			"no link":              {Upsert{URL: url("plain")}, "CREATED", nil},
		} {
			c.in.ExternalID = name
			l, outcome := b.upsertLink(t, c.in)
			if outcome != c.want || c.adopted != nil && (l == nil || l.ID != c.adopted.ID || *l.ExternalID != name) {
				t.Errorf("%s: %s, %+v", name, outcome, l)
			}
			if l == nil {
				continue
			}
			if _, outcome := b.upsertLink(t, c.in); outcome != "UNCHANGED" {
				t.Errorf("%s, again: %s", name, outcome)
			}
		}
		_, err := b.Upsert(t.Context(), b.Mine, &Upsert{ExternalID: "3", URL: url("own"), CustomCode: new("own")})
		if !strings.Contains(errs.From(err).Message, "a link with another externalId") {
			t.Errorf("the conflict is not named: %v", err)
		}
		if _, outcome := b.upsertLink(t, Upsert{ExternalID: "a URL", URL: url("elsewhere")}); outcome != "IMMUTABLE" {
			t.Errorf("another URL of a deterministic link: %s", outcome)
		}
		b.ExpectConsistent(t)
	})
}

func TestStore_UpsertManyReturnsResultsInOrder(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.create(t,
			Input{URL: "https://example.com/a", Strategy: new(link.Random), ExternalID: new("a"), Title: new("a")})
		b.create(t, Input{URL: "https://example.com/b", Strategy: new(link.Random), ExternalID: new("b")})
		in := func() []*Upsert {
			return []*Upsert{
				{ExternalID: "b", URL: "https://example.com/b", Fields: linkfield.Change{Title: to(new("b"))}},
				{ExternalID: "c", URL: "https://example.com/b"},
				{ExternalID: "bad", URL: "ftp://example.com"},
				{ExternalID: "a", URL: "https://example.com/a", Fields: linkfield.Change{Title: to(new("a"))}},
				{ExternalID: "d", URL: "https://example.com/d", Strategy: new(link.Deterministic)},
				{ExternalID: "e", URL: "https://example.com/d", Strategy: new(link.Deterministic)},
				{ExternalID: "\n", URL: "https://example.com/d"},
				{ExternalID: "f", URL: "https://example.com/f"},
			}
		}
		run := func(policy link.Policy) (said []string) {
			t.Helper()
			results := must.Value(b.UpsertMany(t.Context(), b.Mine, in(), policy))(t)
			for i, r := range results {
				if said = append(said, string(r.Outcome)+kindOf(r.Err)); r.Link != nil &&
					*r.Link.ExternalID != in()[i].ExternalID {
					t.Errorf("result %d is of %s", i, *r.Link.ExternalID)
				}
			}
			return said
		}
		b.Quota.Default = 4
		all := []string{"CONFLICT", "CONFLICT", "INVALID_URL", "CONFLICT", "CONFLICT", "CONFLICT", "INVALID_INPUT",
			"CONFLICT"}
		wanttest.Equal(t, all, run(link.AllOrNothing), "all or nothing")
		if n, _, err := b.Quota.Used(t.Context(), b.Mine); n != 2 || err != nil {
			t.Errorf("%d links have consumed the quota: %v", n, err)
		}
		some := []string{"UPDATED", "CREATED", "INVALID_URL", "UNCHANGED", "CREATED", "CONFLICT", "INVALID_INPUT",
			"QUOTA_EXCEEDED"}
		wanttest.Equal(t, some, run(link.SkipFailed), "difference")
		twice := []*Upsert{{ExternalID: "x", URL: "https://example.com/x"},
			{ExternalID: "x", URL: "https://example.com/x"}}
		linktest.Refused(b.UpsertMany(t.Context(), b.Mine, twice, link.SkipFailed))(t, errs.InvalidInput,
			"an id that occurs twice")
		b.ExpectConsistent(t)
	})
}

// TestStore_UpsertsRace: of concurrent upserts of one id on two nodes one creates the link, with
// one event. Two ids with one URL are two links.
func TestStore_UpsertsRace(t *testing.T) {
	t.Parallel()
	const n = 40
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		other := NewStore(b.config)
		got := linktest.AtOnce(n, func(i int) string {
			u := &Upsert{ExternalID: "1", URL: "https://example.com/a", Fields: linkfield.Change{Title: to(new("a"))}}
			one, err := []*Store{b.Store, other}[i%2].Upsert(t.Context(), b.Mine, u)
			return string(one.Outcome) + kindOf(err)
		})
		wanttest.Equal(t, map[string]int{"CREATED": 1, "UNCHANGED": n - 1}, got, "difference")
		if links, events := b.all(t), b.Events(t, 1); len(links) != 1 || events[0].Action != audit.LinkCreated {
			t.Errorf("%d links, event %s", len(links), events[0].Action)
		}
		if l, outcome := b.upsertLink(t, Upsert{ExternalID: "2", URL: "https://example.com/a"}); outcome != "CREATED" {
			t.Errorf("another id with the same URL: %s, %+v", outcome, l)
		}
		b.ExpectConsistent(t)
	})
}

// TestStore_UpsertOfPurgedLinkAppliesAllFields as for a new link: its URL has a code already.
func TestStore_UpsertOfPurgedLinkAppliesAllFields(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		purged, _ := b.create(t, Input{URL: "https://example.com/purged"})
		b.Remove(t, purged.ID)
		b.Now = noon.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		starts, expires := b.Now.Add(time.Hour), b.Now.Add(2*time.Hour)
		fields := linkfield.Change{
			Title: to(new("title")), Note: to(new("note")), Tags: to([]string{"tag"}), StartsAt: to(&starts),
			ExpiresAt: to(&expires), MaxClicks: to(new(int64(5))), RedirectStatus: to(301), Archived: to(true),
			StatsPublic: to(true), Metadata: to(pairs("k", "v")),
			Routing: to(&routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))}),
		}
		states := map[string]link.Snapshot{}
		for _, url := range []string{"https://example.com/purged", "https://example.com/new"} {
			l, _ := b.upsertLink(t,
				Upsert{ExternalID: url, URL: url, Strategy: new(link.Deterministic), Fields: fields})
			if isRevived := l.ID == purged.ID; isRevived != strings.HasSuffix(url, "purged") {
				t.Fatalf("%s is %s", url, l.ID)
			}
			state := must.Value(b.History.Versions(t.Context(), b.Reload(t, l), 1, ""))(t).Items[0].Snapshot
			state.OriginalURL, state.ExternalID = "", nil
			states[url] = state
		}
		if diff := cmp.Diff(states["https://example.com/new"], states["https://example.com/purged"]); diff != "" {
			t.Errorf("(-new +revived):\n%s", diff)
		}
	})
}
