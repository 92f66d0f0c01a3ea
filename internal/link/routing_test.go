package link_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestStore_RoutingTextsStay writes texts that look like escapes, again and again.
func TestStore_RoutingTextsStay(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const text = `it's \u0000 \\ "quoted" \' {} ü`
		rule := &routing.Rule{Name: new(text), Targets: []*routing.Target{{}}}
		l := b.Make(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{Routing: optional.Set(&routing.Change{
				Rules: optional.Set([]*routing.Rule{rule}), UTM: optional.Set(&routing.UTM{Source: new(text)}),
			})}})
		for _, title := range []string{"a", "b", "c"} {
			b.Change(t, l, linkfield.Change{Title: to(new(title))})
			got := b.Reload(t, l).Routing
			if *got.Rules[0].Name != text || *got.UTM.Source != text {
				t.Fatalf("%q and %q, want %q", *got.Rules[0].Name, *got.UTM.Source, text)
			}
		}
		change := &routing.Change{Query: optional.Set(&routing.Forwarding{Mode: routing.Add, Only: []string{"a\x00"}})}
		_, err := b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, Routing: optional.Set(change)})
		e := errs.From(err)
		if e == nil || e.Kind != errs.InvalidInput || strings.Join(e.Field, ".") != "routing.query.only.0" {
			t.Errorf("U+0000: %v", err)
		}
	})
}

// split is a routing of two targets that are drawn by visitor, with a test.
func split(test *routing.Test) *routing.Change {
	rule := &routing.Rule{Stickiness: routing.ByVisitor, Targets: []*routing.Target{
		{URL: new("https://example.com/a")}, {URL: new("https://example.com/b")},
	}}
	return &routing.Change{
		Rules: optional.Set([]*routing.Rule{rule}), Tests: optional.Set([]*routing.Test{test}),
	}
}

// TestStore_TestsOfDrawsAcceptAnyCandidate creates links whose tests expect one of two targets: a
// test that passes once passes always.
func TestStore_TestsOfDrawsAcceptAnyCandidate(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.DrawKey = routing.DrawKey([]byte("a secret"))
		for i := range 20 {
			test := &routing.Test{
				Visit:    &routing.Sample{Address: new("192.0.2.1")},
				Location: new("https://example.com/" + "ab"[i%2:i%2+1]),
			}
			l := b.Make(t,
				creation.Input{URL: "https://example.com/own", Strategy: new(link.Random),
					Fields: linkfield.Change{Routing: optional.Set(split(test))}})
			b.Change(t, l, linkfield.Change{Routing: optional.Set(&routing.Change{})})
		}
		test := &routing.Test{Visit: &routing.Sample{}, Location: new("https://example.com/c")}
		_, _, err := b.Create(t.Context(), b.Mine, creation.Input{URL: "https://example.com/own",
			Fields: linkfield.Change{Routing: optional.Set(split(test))}})
		if e := errs.From(err); e == nil || strings.Join(e.Field, ".") != "routing.tests.0" {
			t.Errorf("a location that no candidate has: %v", err)
		}
	})
}

// TestStore_TestsFillPlaceholders expects the code in a fallback URL, when a link is created and
// when it is changed.
func TestStore_TestsFillPlaceholders(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		later := noon.AddDate(0, 0, 2)
		test := &routing.Test{
			Visit: &routing.Sample{At: &later}, Location: new("https://example.com/ended?spring@sho.rt"),
			Status: new(302),
		}
		expires := noon.AddDate(0, 0, 1)
		l := b.Make(t,
			creation.Input{URL: "https://example.com/own", CustomCode: new("spring"),
				Fields: linkfield.Change{ExpiresAt: optional.Set(&expires), Routing: optional.Set(&routing.Change{
					EndedURL: optional.Set(new("https://example.com/ended?{code}@{host}")),
					Tests:    optional.Set([]*routing.Test{test}),
				})}})
		b.Change(t, l, linkfield.Change{Routing: optional.Set(&routing.Change{})})
	})
}

// TestStore_ExplainSkipsUsedUpTargets grants all clicks of a target.
func TestStore_ExplainSkipsUsedUpTargets(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		rule := &routing.Rule{
			Targets: []*routing.Target{{URL: new("https://example.com/capped"), MaxClicks: new(int64(1))}}}
		l := b.Make(t, creation.Input{URL: "https://example.com/own",
			Fields: linkfield.Change{Routing: optional.Set(&routing.Change{
				Rules: optional.Set([]*routing.Rule{rule}),
			})}})
		targetID := l.Routing.Rules[0].Targets[0].ID
		explain := func(change *routing.Change) string {
			e := must.Value(b.Links.Explain(t.Context(), link.Simulation{Link: b.Reload(t, l), Change: change}))(t)
			return *e.Location
		}
		if got := explain(nil); got != "https://example.com/capped" {
			t.Errorf("before: %s", got)
		}
		const use = "UPDATE grants SET granted = 1 WHERE subject_id = ?"
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), use, targetID))(t)
		if got := explain(nil); got != "https://example.com/own" {
			t.Errorf("used up: %s", got)
		}
		raised := *l.Routing.Rules[0]
		raised.Targets = []*routing.Target{{ID: targetID, URL: rule.Targets[0].URL, MaxClicks: new(int64(2))}}
		got := explain(&routing.Change{Rules: optional.Set([]*routing.Rule{&raised})})
		if got != "https://example.com/capped" {
			t.Errorf("with a larger maximum: %s", got)
		}
	})
}

// TestStore_LocksTargetsInOrder: returned leases lock several targets in the order of their IDs.
func TestStore_LocksTargetsInOrder(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	rule := &routing.Rule{}
	for range 8 {
		rule.Targets = append(rule.Targets,
			&routing.Target{URL: new("https://example.com/a"), MaxClicks: new(int64(1))})
	}
	b.Make(t, creation.Input{URL: "https://example.com/own",
		Fields: linkfield.Change{Routing: optional.Set(&routing.Change{
			Rules: optional.Set([]*routing.Rule{rule}),
		})}})
	var written []string // ctid has the order of the writes
	err := d.NewSelect().Table("grants").Column("subject_id").Order("ctid").Scan(db.AsSystem(t.Context()), &written)
	if err != nil || len(written) != 8 || !slices.IsSorted(written) {
		t.Errorf("written are %s, %v", written, err)
	}
}

// TestStore_DisabledLinkKeepsItsURLs: a member who could change them would get around the operator.
func TestStore_DisabledLinkKeepsItsURLs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ended := optional.Set(new("https://bad.example/"))
		l := b.Make(t, creation.Input{URL: "https://example.com/own",
			Fields: linkfield.Change{Routing: optional.Set(&routing.Change{EndedURL: ended})}})
		b.Set(t, l, "disabled_at = ?", noon)
		for _, change := range []*routing.Change{{EndedURL: optional.Set[*string](nil)}, nil} {
			_, err := b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, Routing: optional.Set(change)})
			if e := errs.From(err); e == nil || e.Kind != errs.UnsafeURL ||
				!slices.Equal(e.Field, []string{"routing"}) {
				t.Errorf("%+v: %v", change, err)
			}
		}
		b.Change(t, l, linkfield.Change{Routing: optional.Set(&routing.Change{ForwardPath: optional.Set(new(true))})})
		wanttest.Equal(t, []string{"example.com", "bad.example"}, b.Reload(t, l).Hosts(), "difference")
	})
}
