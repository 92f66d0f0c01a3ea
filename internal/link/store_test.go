package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle = creationtest.World

var each, setup = creationtest.Each, creationtest.New

var custom, pairs = creationtest.Custom, linktest.Pairs

// to is an edit.
func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

// TestLink_StatusPrecedence tests the states in order of precedence.
func TestLink_StatusPrecedence(t *testing.T) {
	t.Parallel()
	before, after, one := noon.Add(-time.Microsecond), noon.Add(time.Microsecond), int64(1)
	l := link.Link{}
	for _, step := range []struct {
		change func()
		want   routing.Status
	}{
		{func() {}, routing.Active},
		{func() { l.StartsAt, l.MaxClicks, l.ExpiresAt = new(noon), &one, &after }, routing.Active},
		{func() { l.StartsAt = &after }, routing.Scheduled},
		{func() { l.Granted = 1 }, routing.Exhausted},
		{func() { l.ExpiresAt = new(noon) }, routing.Expired},
		{func() { l.DeletedAt = &before }, routing.Deleted},
		{func() { l.DisabledAt = &before }, routing.Disabled},
	} {
		step.change()
		if got := l.Status(noon); got != step.want {
			t.Errorf("%+v is %s, want %s", l, got, step.want)
		}
	}
}

func TestStore_NotesAndTags(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		note := "first line\nsecond"
		l := b.Make(t,
			creation.Input{URL: "https://example.com/", Fields: linkfield.Change{Note: optional.Set(&note),
				Tags: optional.Set([]string{"spring", " Autumn ", "spring"})}})
		if got := b.Tags(t, l); *l.Note != note || !cmp.Equal(got, []string{"Autumn", "spring"}) {
			t.Errorf("note %q, tags %q", *l.Note, got)
		}
		l = b.Change(t, l, linkfield.Change{Tags: to([]string{"winter"}), Archived: to(true)})
		if got := b.Tags(t, l); !l.Archived || *l.Note != note || !cmp.Equal(got, []string{"winter"}) {
			t.Errorf("%+v, tags %q", l, got)
		}
		l = b.Change(t, l, linkfield.Change{Note: to[*string](nil), Tags: to[[]string](nil), Archived: to(false)})
		if got := b.Tags(t, l); l.Archived || l.Note != nil || len(got) != 0 {
			t.Errorf("%+v, tags %q", l, got)
		}
	})
}

func TestStore_ChecksOwnData(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var many []*linkfield.Pair
		var tags []string
		for i := range max(linkfield.MaxPairs, linkfield.MaxTags) + 1 {
			many = append(many, &linkfield.Pair{Key: fmt.Sprint("k", i)})
			tags = append(tags, fmt.Sprint(i))
		}
		for name, in := range map[string]creation.Input{
			"no id":        {Fields: linkfield.Change{ExternalID: optional.Set(new(""))}},
			"a long id":    {Fields: linkfield.Change{ExternalID: optional.Set(new(strings.Repeat("ä", 256)))}},
			"a line break": {Fields: linkfield.Change{ExternalID: optional.Set(new("a\nb"))}},
			"no text":      {Fields: linkfield.Change{ExternalID: optional.Set(new("a\xff"))}},
			"no key":       {Fields: linkfield.Change{Metadata: optional.Set(pairs("", "v"))}},
			"a bad key":    {Fields: linkfield.Change{Metadata: optional.Set(pairs("a b", "v"))}},
			"a long key": {Fields: linkfield.Change{Metadata: optional.Set(pairs(strings.Repeat("a", 51),
				"v"))}},
			"a long value": {Fields: linkfield.Change{Metadata: optional.Set(pairs("k", strings.Repeat("ä",
				501)))}},
			"a zero": {Fields: linkfield.Change{Metadata: optional.Set(pairs("k", "\x00"))}},
			"the same key": {Fields: linkfield.Change{Metadata: optional.Set(append(pairs("k", "1"), pairs("k",
				"2")...))}},
			"too many pairs":  {Fields: linkfield.Change{Metadata: optional.Set(many)}},
			"value not UTF-8": {Fields: linkfield.Change{Metadata: optional.Set(pairs("k", "\xff"))}},
			"a long note": {Fields: linkfield.Change{Note: optional.Set(new(strings.Repeat("n",
				linkfield.MaxNote+1)))}},
			"many tags":          {Fields: linkfield.Change{Tags: optional.Set(tags)}},
			"an empty tag":       {Fields: linkfield.Change{Tags: optional.Set([]string{""})}},
			"a tag of two lines": {Fields: linkfield.Change{Tags: optional.Set([]string{"a\nb"})}},
			"no clicks":          {Fields: linkfield.Change{MaxClicks: optional.Set(new(int64))}},
		} {
			t.Run(name, func(t *testing.T) {
				in.URL = "https://example.com/bad"
				b.Refuse(t, in, errs.InvalidInput)
			})
		}
		longest := creation.Input{URL: "https://example.com/good",
			Fields: linkfield.Change{ExternalID: optional.Set(new(strings.Repeat("ä", 255))),
				Metadata: optional.Set(many[:linkfield.MaxPairs])}}
		for _, p := range longest.Fields.Metadata.To {
			p.Value = strings.Repeat("𝄞", linkfield.MaxPairValue)
		}
		l := b.Make(t, longest)
		got, err := b.Get(t.Context(), b.Mine, l.ID)
		if err != nil || *got.ExternalID != *longest.Fields.ExternalID.To {
			t.Fatalf("%+v, %v", got, err)
		}
		stored, err := got.Metadata.Pairs()
		if err != nil || len(stored) != linkfield.MaxPairs || stored[0].Value != longest.Fields.Metadata.To[0].Value {
			t.Errorf("%d pairs, %v", len(stored), err)
		}
	})
}

func TestStore_ExternalIDLivesAsLongAsTheLink(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t,
			creation.Input{URL: "https://example.com/a", Fields: linkfield.Change{ExternalID: optional.Set(new("1")),
				Metadata: optional.Set(pairs("k", "v"))}})
		random := b.Make(t,
			creation.Input{URL: "https://example.com/b", Strategy: new(link.Random),
				Fields: linkfield.Change{ExternalID: optional.Set(new("2")), Metadata: optional.Set(pairs("k", "v"))}})
		for _, one := range []*link.Link{l, random} {
			must.Value(b.Edit.Delete(t.Context(), b.Mine, one.ID))(t)
		}
		if got, err := b.ByExternalID(t.Context(), b.Mine, "1"); err != nil || got.ID != l.ID || got.Metadata == "" {
			t.Errorf("deleted: %+v, %v", got, err)
		}
		b.Refuse(t, creation.Input{URL: "https://example.com/c",
			Fields: linkfield.Change{ExternalID: optional.Set(new("2"))}}, errs.ExternalIDTaken)
		// Revived without an id, it has the one that it had.
		revived, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/a"})
		if created || revived.ID != l.ID || optional.Value(revived.ExternalID) != "1" || revived.Metadata != "" {
			t.Errorf("revived: %t, %+v", created, revived)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(linktest.Tombstones + time.Hour)
		b.PurgeEnded(t)
		b.ExpectRows(t, 0, "link_metadata", "TRUE")
		other, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/c",
			Fields: linkfield.Change{ExternalID: optional.Set(new("1"))}})
		if !created {
			t.Error("the id of a purged link is taken")
		}
		b.Refuse(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExternalID: optional.Set(new("1"))}}, errs.ExternalIDTaken)
		again, created := b.MakeOrFind(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExternalID: optional.Set(new("3"))}})
		if created || optional.Value(again.ExternalID) != "3" || again.ID == other.ID {
			t.Errorf("revived with another id: %t, %+v", created, again)
		}
	})
}

func TestStore_AtRejectsHostileCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, code := range []string{"", "a", "' OR 1=1 --", "abc\x00", "\xff\xfe\xfd", strings.Repeat("a", 10_000),
			"a?b", "äöü"} {
			for _, a := range []resolve.Address{{Code: code}, {Slug: "mine", Code: code}, {Slug: code, Code: "abc"},
				{Host: code, Code: "abc"}, {Host: "links.example.com", Code: code}} {
				if a.Slug == "" && a.Host == "" && a.Code == "abc" {
					continue
				}
				linktest.Refused(b.At(t.Context(), a))(t, errs.NotFound, "%+v", a)
			}
			linktest.Refused(b.Get(t.Context(), b.Mine, code))(t, errs.NotFound, "id %q", code)
		}
	})
}

// TestStore_CreateReturnsDueState: createLink finds a link by its URL after a due change, and
// returns that state.
func TestStore_CreateReturnsDueState(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const before, after = "https://example.com/a", "https://example.com/b"
		l := b.Make(t, creation.Input{URL: before, CustomCode: new("promo")})
		same := b.Make(t, creation.Input{URL: before})
		b.Plan(t, l, time.Hour, linkfield.Change{URL: to(after)})
		b.Plan(t, same, time.Hour, linkfield.Change{Title: to(new("due"))})
		b.Now = b.Now.Add(2 * time.Hour)
		found, isNew := b.MakeOrFind(t, creation.Input{URL: after, CustomCode: new("promo")})
		if isNew || found.ID != l.ID || found.OriginalURL != after {
			t.Errorf("by code: new %t, %+v", isNew, found)
		}
		b.Refuse(t, creation.Input{URL: before, CustomCode: new("promo")}, errs.CodeTaken)
		if found := b.Make(t, creation.Input{URL: before}); found.ID != same.ID ||
			optional.Value(found.Title) != "due" {
			t.Errorf("by URL: %+v", found)
		}
	})
}

// TestStore_ExplainAppliesPendingChanges that are due at the time of the visit, on top of the tried
// routing.
func TestStore_ExplainAppliesPendingChanges(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		target := "https://example.com/tried"
		tried := &routing.Change{Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: &target}}}})}
		b.Plan(t, l, time.Hour, linkfield.Change{URL: to("https://example.com/b")})
		b.Plan(t, l, 2*time.Hour, linkfield.Change{Routing: to(&routing.Change{
			Rules: optional.Set([]*routing.Rule{}), EndedURL: optional.Set(new("https://example.com/ended"))})})
		for _, c := range []struct {
			in   time.Duration
			try  *routing.Change
			want string
		}{
			{0, nil, "https://example.com/a"}, {time.Hour - 1, nil, "https://example.com/a"},
			{time.Hour, nil, "https://example.com/b"}, {time.Hour, tried, target},
			{2 * time.Hour, tried, "https://example.com/b"},
		} {
			visit := &routing.Sample{At: new(b.Now.Add(c.in))}
			e := must.Value(b.Links.Explain(t.Context(),
				link.Simulation{Link: b.Reload(t, l), Visit: visit, Change: c.try}))(t)
			if got := optional.Value(e.Location); got != c.want {
				t.Errorf("after %s, trying a routing: %t: %s, want %s", c.in, c.try != nil, got, c.want)
			}
		}
	})
}

// TestStore_ValidatesStatesWithinBounds: only changed routings are validated, and not for a caller
// that has gone.
func TestStore_ValidatesStatesWithinBounds(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
	ended := &routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))}
	b.Plan(t, l, time.Hour, linkfield.Change{Routing: to(ended)})
	const corrupt = "UPDATE scheduled_changes SET patch = replace(patch, 'https://example.com/ended', 'no URL')"
	if _, err := b.DB.ExecContext(db.AsSystem(t.Context()), corrupt); err != nil { // refused by today's rules
		t.Fatal(err)
	}
	b.Change(t, l, linkfield.Change{URL: to("https://example.com/b")})
	other := &routing.Change{ForwardPath: optional.Set(new(true))}
	_, err := b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, Routing: to(other)})
	if !errs.Is(err, errs.InvalidURL) && !errs.Is(err, errs.InvalidInput) {
		t.Errorf("another routing: %v", err)
	}
	loaded := b.Reload(t, l)
	if err := link.LoadPendingChanges(db.AsSystem(t.Context()), b.DB, loaded); err != nil ||
		len(loaded.PendingChanges()) != 1 {
		t.Fatalf("%d pending: %v", len(loaded.PendingChanges()), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ValidStates(ctx, loaded); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	e := link.Edits{IDs: []string{l.ID}, Mutate: func(int, *link.Link) error { return nil }}
	if err := b.MutateOnce(ctx, &e, map[string]*link.Link{l.ID: loaded}); !errors.Is(err, context.Canceled) {
		t.Errorf("edits after the end of the context: %v", err)
	}
}
