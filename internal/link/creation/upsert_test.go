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
func (b *bundle) upsertLink(t *testing.T, u Input) (*link.Link, string) {
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
			in   Input
			want string
		}{
			{"new", Input{URL: url, Fields: linkfield.Change{Title: to(new("one")), Tags: to([]string{"b", "a"}),
				Metadata: to(pairs("k", "v")), ExpiresAt: to(&soon), Archived: to(true), StatsPublic: to(true),
				Routing: rules("https://example.com/r")}}, "CREATED"},
			{"equal", Input{URL: url, Fields: linkfield.Change{Title: to(new("one")), Tags: to([]string{"a", "b"}),
				Metadata: to(pairs("k", "v")), ExpiresAt: to(&soon), Archived: to(true), StatsPublic: to(true),
				Routing: rules("https://example.com/r")}}, "UNCHANGED"},
			{"nothing given", Input{URL: url}, "UNCHANGED"},
			{"other tags", Input{URL: url, Fields: linkfield.Change{Tags: to([]string{"a"})}}, "UPDATED"},
			{"other metadata", Input{URL: url, Fields: linkfield.Change{Metadata: to(pairs("k", "w"))}}, "UPDATED"},
			{"other routing", Input{URL: url, Fields: linkfield.Change{Routing: rules("https://example.com/s")}},
				"UPDATED"},
			{"no routing", Input{URL: url, Fields: linkfield.Change{Routing: to[*routing.Change](nil)}}, "UPDATED"},
			{"other URL", Input{URL: "https://example.com/b"}, "UPDATED"},
			{"other spelling", Input{URL: "https://EXAMPLE.com/b"}, "UPDATED"},
			{"bad URL", Input{URL: "ftp://example.com"}, "INVALID_URL"},
			{"circular URL", Input{URL: "http://sho.rt/x"}, "UNSAFE_URL"},
			{"bad title", Input{URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{Title: to(new("a\x00"))}},
				"INVALID_INPUT"},
			{"in the past", Input{URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{ExpiresAt: to(&past)}},
				"INVALID_INPUT"},
			{"another strategy", Input{URL: "https://EXAMPLE.com/b", Strategy: new(link.Counter)}, "IMMUTABLE"},
			{"the strategy", Input{URL: "https://EXAMPLE.com/b", Strategy: new(link.Random)}, "UNCHANGED"},
			{"another code", Input{URL: "https://EXAMPLE.com/b", CustomCode: new("promo")}, "IMMUTABLE"},
		} {
			c.in.Fields.ExternalID = to(new("1"))
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
		same := Input{URL: "https://EXAMPLE.com/b", Fields: linkfield.Change{ExternalID: to(new("1")),
			ExpiresAt: to(&soon)}}
		if _, outcome := b.upsertLink(t, same); outcome != "UNCHANGED" {
			t.Errorf("an expired link: %s", outcome)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		revived, outcome := b.upsertLink(t, Input{URL: "https://EXAMPLE.com/b",
			Fields: linkfield.Change{ExternalID: to(new("1"))}})
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
		b.create(t, Input{URL: url("own"), Fields: linkfield.Change{ExternalID: to(new("own"))}})
		b.create(t, Input{URL: url("own"), CustomCode: new("own"),
			Fields: linkfield.Change{ExternalID: to(new("own-2"))}})
		deleted, _ := b.create(t, Input{URL: url("deleted")})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		for name, c := range map[string]struct {
			in      Input
			want    string
			adopted *link.Link
		}{
			"a URL":  {Input{URL: url("plain"), Strategy: new(link.Deterministic)}, "UPDATED", plain},
			"a code": {Input{URL: url("other"), CustomCode: new("custom")}, "UPDATED", custom},
			"a deleted link": {Input{URL: url("deleted"), Strategy: new(link.Deterministic)}, "UPDATED",
				deleted},
			"a URL of another id":  {Input{URL: url("own"), Strategy: new(link.Deterministic)}, "CONFLICT", nil},
			"a code of another id": {Input{URL: url("own"), CustomCode: new("own")}, "CODE_TAKEN", nil},
			"no link":              {Input{URL: url("plain")}, "CREATED", nil},
		} {
			c.in.Fields.ExternalID = to(&name)
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
		_, err := b.Upsert(t.Context(), b.Mine, &Input{URL: url("own"), CustomCode: new("own"),
			Fields: linkfield.Change{ExternalID: to(new("3"))}})
		if !strings.Contains(errs.From(err).Message, "a link with another externalId") {
			t.Errorf("the conflict is not named: %v", err)
		}
		if _, outcome := b.upsertLink(t, Input{URL: url("elsewhere"),
			Fields: linkfield.Change{ExternalID: to(new("a URL"))}}); outcome != "IMMUTABLE" {
			t.Errorf("another URL of a deterministic link: %s", outcome)
		}
		b.ExpectConsistent(t)
	})
}

func TestStore_UpsertManyReturnsResultsInOrder(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.create(t,
			Input{URL: "https://example.com/a", Strategy: new(link.Random),
				Fields: linkfield.Change{ExternalID: to(new("a")), Title: to(new("a"))}})
		b.create(t, Input{URL: "https://example.com/b", Strategy: new(link.Random),
			Fields: linkfield.Change{ExternalID: to(new("b"))}})
		in := func() []*Input {
			return []*Input{
				{URL: "https://example.com/b", Fields: linkfield.Change{ExternalID: to(new("b")), Title: to(new("b"))}},
				{URL: "https://example.com/b", Fields: linkfield.Change{ExternalID: to(new("c"))}},
				{URL: "ftp://example.com", Fields: linkfield.Change{ExternalID: to(new("bad"))}},
				{URL: "https://example.com/a", Fields: linkfield.Change{ExternalID: to(new("a")), Title: to(new("a"))}},
				{URL: "https://example.com/d", Strategy: new(link.Deterministic),
					Fields: linkfield.Change{ExternalID: to(new("d"))}},
				{URL: "https://example.com/d", Strategy: new(link.Deterministic),
					Fields: linkfield.Change{ExternalID: to(new("e"))}},
				{URL: "https://example.com/d", Fields: linkfield.Change{ExternalID: to(new("\n"))}},
				{URL: "https://example.com/f", Fields: linkfield.Change{ExternalID: to(new("f"))}},
			}
		}
		run := func(policy link.Policy) (said []string) {
			t.Helper()
			results := must.Value(b.UpsertMany(t.Context(), b.Mine, in(), policy))(t)
			for i, r := range results {
				if said = append(said, string(r.Outcome)+kindOf(r.Err)); r.Link != nil &&
					*r.Link.ExternalID != in()[i].externalID() {
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
		twice := []*Input{{URL: "https://example.com/x", Fields: linkfield.Change{ExternalID: to(new("x"))}},
			{URL: "https://example.com/x", Fields: linkfield.Change{ExternalID: to(new("x"))}}}
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
			u := &Input{URL: "https://example.com/a", Fields: linkfield.Change{ExternalID: to(new("1")),
				Title: to(new("a"))}}
			one, err := []*Store{b.Store, other}[i%2].Upsert(t.Context(), b.Mine, u)
			return string(one.Outcome) + kindOf(err)
		})
		wanttest.Equal(t, map[string]int{"CREATED": 1, "UNCHANGED": n - 1}, got, "difference")
		if links, events := b.all(t), b.Events(t, 1); len(links) != 1 || events[0].Action != audit.LinkCreated {
			t.Errorf("%d links, event %s", len(links), events[0].Action)
		}
		if l, outcome := b.upsertLink(t, Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExternalID: to(new("2"))}}); outcome != "CREATED" {
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
			fields.ExternalID = to(&url)
			l, _ := b.upsertLink(t,
				Input{URL: url, Strategy: new(link.Deterministic), Fields: fields})
			if isRevived := l.ID == purged.ID; isRevived != strings.HasSuffix(url, "purged") {
				t.Fatalf("%s is %s", url, l.ID)
			}
			state := must.Value(b.History.Versions(t.Context(), b.Reload(t, l), new(1), ""))(t).Items[0].Snapshot
			state.OriginalURL, state.ExternalID = "", nil
			states[url] = state
		}
		if diff := cmp.Diff(states["https://example.com/new"], states["https://example.com/purged"]); diff != "" {
			t.Errorf("(-new +revived):\n%s", diff)
		}
	})
}
