package link_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestStore_CreateReturnsDueState: createLink finds a link by its URL after a due change, and
// returns that state.
func TestStore_CreateReturnsDueState(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const before, after = "https://example.com/a", "https://example.com/b"
		l := b.Make(t, creation.Input{URL: before, CustomCode: new("promo")})
		same := b.Make(t, creation.Input{URL: before})
		b.Plan(t, l, time.Hour, link.Change{URL: to(after)})
		b.Plan(t, same, time.Hour, link.Change{Title: to(new("due"))})
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
		b.Plan(t, l, time.Hour, link.Change{URL: to("https://example.com/b")})
		b.Plan(t, l, 2*time.Hour, link.Change{Routing: to(&routing.Change{
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
	b.Plan(t, l, time.Hour, link.Change{Routing: to(ended)})
	const corrupt = "UPDATE scheduled_changes SET patch = replace(patch, 'https://example.com/ended', 'no URL')"
	if _, err := b.DB.ExecContext(db.AsSystem(t.Context()), corrupt); err != nil { // refused by today's rules
		t.Fatal(err)
	}
	b.Change(t, l, link.Change{URL: to("https://example.com/b")})
	other := &routing.Change{ForwardPath: optional.Set(new(true))}
	_, err := b.Edit.Update(t.Context(), b.Mine, link.Change{ID: l.ID, Routing: to(other)})
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
