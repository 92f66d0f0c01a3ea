package edit_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestDestinationHosts_CoverWhatOthersStored: an API key cannot make a URL effective that a member
// or an anonymous user has stored.
func TestDestinationHosts_CoverWhatOthersStored(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, m := t.Context(), workspacetest.Require(t, b.DB, account.Actor{Key: &account.Key{
			ID: id.New(id.Key), WorkspaceID: b.Mine.ID(), Scopes: []string{"LINKS_WRITE"},
			DestinationHosts: []string{"example.com"},
		}}, b.Mine.ID())
		const inside, outside = "https://example.com/a", "https://evil.example/a"
		stored := func(url string) *link.Link {
			l := b.Make(t, creation.Input{URL: url, Strategy: new(link.Random)})
			return l
		}
		refuse := func(way string, err error) {
			t.Helper()
			if !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%s: %v", way, err)
			}
		}
		reverted := stored(outside)
		b.Change(t, reverted, link.Change{URL: to(inside)})
		_, err := b.Edit.Revert(ctx, m, reverted.ID, 1, nil)
		refuse("reverting", err)

		undone := stored(outside)
		changed := must.Value(b.Edit.UpdateMany(ctx, b.Mine, []link.Change{{ID: undone.ID, URL: to(inside)}},
			link.SkipFailed))(t)
		undo := must.Value(b.Edit.RevertOperation(ctx, m, changed[0].OperationID))(t)
		refuse("undoing", undo.Results[0].Err)

		deleted := stored(outside)
		b.Remove(t, deleted.ID)
		_, err = b.Edit.Restore(ctx, m, deleted.ID)
		refuse("restoring", err)

		revived := b.Make(t, creation.Input{URL: outside, Strategy: new(link.Deterministic)})
		b.Remove(t, revived.ID)
		_, _, err = b.Create(ctx, m, creation.Input{URL: outside, Strategy: new(link.Deterministic)})
		refuse("reviving", err)

		expired, planned, routed := stored(outside), stored(inside), stored(outside)
		b.Change(t, expired, link.Change{ExpiresAt: to(new(b.Now.Add(time.Minute)))})
		b.Plan(t, planned, time.Hour, link.Change{URL: to(outside)})
		_, err = b.Edit.Update(ctx, m, link.Change{ID: planned.ID, URL: to(inside + "/b")})
		refuse("changing a link with a scheduled change", err)
		b.Tick()
		b.Tick()
		_, err = b.Edit.Update(ctx, m, link.Change{ID: expired.ID, ExpiresAt: to[*time.Time](nil)})
		refuse("extending", err)
		later := to(new(b.Now.Add(time.Minute)))
		_, err = b.Edit.Update(ctx, m, link.Change{ID: expired.ID, StartsAt: later, ExpiresAt: to[*time.Time](nil)})
		refuse("scheduling", err)
		_, err = b.Edit.Update(ctx, m,
			link.Change{ID: routed.ID, Routing: to(&routing.Change{EndedURL: to(new(inside))})})
		refuse("changing the routing", err)
		_, err = b.Edit.Update(ctx, m, link.Change{ID: routed.ID, Title: to(new("title"))})
		must.NoError(t, err)

		for _, url := range []string{outside, inside} {
			_, token := b.Anonymous(t, url)
			c := b.ClaimOne(t, m, token)
			if want := url == inside; (c.Status == edit.Claimed) != want ||
				!want && !errs.Is(c.Err, errs.InvalidInput) {
				t.Errorf("claiming %s: %s, %v", url, c.Status, c.Err)
			}
		}
	})
}

// TestBlockedHosts_CoverLinksThatAreNotActiveYet: no operation makes a blocked URL effective that
// is so at a later instant, or after the link's end.
func TestBlockedHosts_CoverLinksThatAreNotActiveYet(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, never := t.Context(), to[*time.Time](nil)
		past, future := b.Now.Add(time.Minute), b.Now.Add(time.Hour)
		later, expires := to(&future), link.Change{StartsAt: never, ExpiresAt: to(&past)}
		const good, blocked = "https://example.com/a", "https://blocked.example.com/a"
		var operation string
		keep, remove := func(*link.Link) {}, func(l *link.Link) { b.Remove(t, l.ID) }
		update := func(c link.Change) func(l *link.Link) error {
			return func(l *link.Link) error {
				c.ID = l.ID
				_, err := b.Edit.Update(ctx, b.Mine, c)
				return err
			}
		}
		restore := func(l *link.Link) error {
			_, err := b.Edit.Restore(ctx, b.Mine, l.ID)
			return err
		}
		ways := map[string]struct {
			in     creation.Input
			before func(l *link.Link)
			change func(l *link.Link) error
		}{
			"update to ACTIVE": {creation.Input{ExpiresAt: &past}, keep, update(link.Change{ExpiresAt: never})},
			"update to SCHEDULED": {creation.Input{ExpiresAt: &past}, keep,
				update(link.Change{StartsAt: later, ExpiresAt: never})},
			"update, restore": {creation.Input{}, remove, func(l *link.Link) error {
				return cmp.Or(update(link.Change{StartsAt: later})(l), restore(l))
			}},
			"restore to SCHEDULED": {creation.Input{StartsAt: &future}, remove, restore},
			"restore to EXPIRED": {creation.Input{
				URL: good, ExpiresAt: &past, Routing: &routing.Change{EndedURL: to(new(blocked))},
			}, remove, restore},
			"revert": {creation.Input{StartsAt: &future}, func(l *link.Link) { b.Change(t, l, expires) },
				func(l *link.Link) error {
					_, err := b.Edit.Revert(ctx, b.Mine, l.ID, 1, nil)
					return err
				}},
			"undo": {creation.Input{StartsAt: &future}, func(l *link.Link) {
				operation = *link.OperationOf(
					b.updateMany(t, link.Change{ID: l.ID, StartsAt: never, ExpiresAt: to(&past)}))
			}, func(*link.Link) error {
				return must.Value(b.Edit.RevertOperation(ctx, b.Mine, operation))(t).Results[0].Err
			}},
			"upsert": {creation.Input{ExternalID: new("gone")}, remove, func(*link.Link) error {
				_, err := b.Upsert(ctx, b.Mine,
					&creation.Upsert{ExternalID: "gone", URL: blocked, Fields: link.Change{StartsAt: later}})
				return err
			}},
		}
		links := map[string]*link.Link{}
		for name, way := range ways {
			way.in.URL, way.in.Strategy = cmp.Or(way.in.URL, blocked), new(link.Random)
			links[name] = b.Make(t, way.in)
			way.before(links[name])
		}
		b.Now = past
		b.Destinations.Blocklist = blockedHost("blocked.example.com")
		for name, way := range ways {
			if err := way.change(links[name]); !errs.Is(err, errs.UnsafeURL) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
