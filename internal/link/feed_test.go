package link_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// follow lets a node follow until the test's end.
func follow(t *testing.T, s *link.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Feed.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// sees waits until the node resolves the address as wanted, and returns how long that took.
func sees(t *testing.T, s *link.Store, a resolve.Address, want func(resolve.Target, error) bool) time.Duration {
	t.Helper()
	began := time.Now()
	polltest.Until(t, fmt.Sprintf("the node sees the change of %+v", a), func() bool {
		return want(s.Resolver.Resolve(t.Context(), a, time.Now(), nil))
	})
	return time.Since(began)
}

// TestFeed_DeliversChangesWithinASecond changes and deletes links on one node, a thousand times,
// while another node caches them. Only the table of changes connects the two.
func TestFeed_DeliversChangesWithinASecond(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		must.Value(b.DB.NewUpdate().Model((*workspace.Workspace)(nil)).Set("link_quota = 1000").
			Where("id = ?", b.Mine.ID()).
			Exec(db.AsSystem(t.Context())))(t)
		other := b.Node(t, b.DB)
		follow(t, other)
		const links, rounds = 50, 10
		var late atomic.Int64
		var all sync.WaitGroup
		for i := range links {
			l := b.Make(t,
				creation.Input{URL: fmt.Sprintf("https://example.com/%d", i), Strategy: new(link.Random)})
			at := resolve.Address{Code: l.Code}
			sees(t, other, at, func(target resolve.Target, err error) bool { return err == nil })
			all.Go(func() {
				for round := range rounds {
					url := fmt.Sprintf("https://example.com/%d/%d", i, round)
					_, err := b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, URL: to(url)})
					if err != nil {
						t.Error(err)
						return
					}
					took := sees(t, other, at, func(target resolve.Target, err error) bool {
						return err == nil &&
							target.Location == url
					})
					change := b.Edit.Delete
					if round%2 == 1 {
						change = b.Edit.Restore
					}
					if _, err := change(t.Context(), b.Mine, l.ID); err != nil {
						t.Error(err)
						return
					}
					took = max(took, sees(t, other, at, func(target resolve.Target, err error) bool {
						return err == nil && (target.Status(noon) == routing.Deleted) == (round%2 == 0)
					}))
					if took > time.Second {
						late.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := late.Load(); n > links*rounds { // a busy machine delays some
			t.Errorf("%d of %d changes were seen after more than a second", n, 2*links*rounds)
		}
	})
}

// TestStore_InvalidatesItsOwnCache: without waiting for the list.
func TestStore_InvalidatesItsOwnCache(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		must.NoError(t, b.Feed.CatchUp(t.Context()))
		promo := resolve.Address{Slug: "mine", Code: "promo"}
		if target, err := b.Resolver.Resolve(t.Context(), promo, time.Now(), nil); err != nil || !target.Unknown {
			t.Errorf("before it is made: %v", err)
		}
		l := b.Make(t,
			creation.Input{URL: "https://example.com/", Strategy: new(link.Custom), CustomCode: new("promo")})
		if target, err := b.Resolver.Resolve(t.Context(), promo, time.Now(), nil); err != nil || target.LinkID != l.ID {
			t.Errorf("after it is made: %v", err)
		}
		b.Change(t, l, linkfield.Change{URL: to("https://example.com/new")})
		if target, err := b.Resolver.Resolve(t.Context(), promo, time.Now(), nil); err != nil ||
			target.Location != "https://example.com/new" {
			t.Errorf("after it has changed: %s, %v", target.Location, err)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		if target, err := b.Resolver.Resolve(t.Context(), promo, time.Now(), nil); err != nil ||
			target.Status(noon) != routing.Deleted {
			t.Errorf("after it is deleted: %v", err)
		}
	})
}

// TestFeed_ListsEveryChangeThatAffectsRedirects changes each column that affects redirects, and
// expects a node with the link in its cache to notice.
func TestFeed_ListsEveryChangeThatAffectsRedirects(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := b.Node(t, b.DB)
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		system := db.AsSystem(t.Context())
		tomorrow := time.Now().Add(24 * time.Hour).UTC()
		for _, c := range []struct{ table, set string }{
			{"links", "original_url = 'https://example.com/new'"}, {"links", "redirect_status = 307"},
			{"links", "max_clicks = 5"},
			{"links", "starts_at = ?"}, {"links", "expires_at = ?"}, {"links", "deleted_at = ?"},
			{"links", "disabled_at = ?"},
			{"links", "root_code = NULL"},
			{"links", "root_code = code"}, {"workspaces", "hit_quota = 7"}, {"workspaces", "deleted_at = ?"},
		} {
			t.Run(c.table+" "+c.set, func(t *testing.T) {
				for _, a := range []resolve.Address{{Code: l.Code}, {Slug: "mine", Code: l.Code}} {
					_, _ = other.Resolver.Resolve(t.Context(), a, time.Now(), nil) // it is in memory
				}
				where, what := "id = ?", l.ID
				if c.table == "workspaces" {
					what = b.Mine.ID()
				}
				q := b.DB.NewUpdate().Table(c.table).Where(where, what)
				if c.set[len(c.set)-1] == '?' {
					q = q.Set(c.set, tomorrow)
				} else {
					q = q.Set(c.set)
				}
				if _, err := q.Exec(system); err != nil {
					t.Fatalf("%s: %v", c.set, err)
				}
				must.NoError(t, other.Feed.CatchUp(t.Context()))
				for _, a := range []resolve.Address{{Code: l.Code}, {Slug: "mine", Code: l.Code}} {
					got, gotErr := other.Resolver.Resolve(t.Context(), a, time.Now(), nil)
					want, wantErr := b.Node(t, b.DB).Resolver.Resolve(t.Context(), a, time.Now(), nil)
					got.ReadAt, want.ReadAt = 0, 0
					if got != want || errs.From(gotErr) != nil != (errs.From(wantErr) != nil) {
						t.Errorf("after %s at %+v: %+v, %v; want %+v, %v", c.set, a, got, gotErr, want, wantErr)
					}
				}
			})
		}
	})
}

// TestFeed_DeliversLateCommits: a transaction that began first and commits last is
// delivered.
func TestFeed_DeliversLateCommits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if d.Kind == db.SQLite {
			return // it has one writer
		}
		b := setup(t, d)
		other := b.Node(t, d)
		slow := b.Make(t, creation.Input{URL: "https://example.com/slow"})
		fast := b.Make(t, creation.Input{URL: "https://example.com/fast"})
		for _, l := range []*link.Link{slow, fast} {
			must.Value(other.Resolver.Resolve(t.Context(), resolve.Address{Code: l.Code}, time.Now(), nil))(t)
		}
		err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewUpdate().Model((*link.Link)(nil)).Set("redirect_status = 307").Where("id = ?", slow.ID).
				Exec(ctx); err != nil {
				return err
			}
			_, err := b.Edit.Delete(t.Context(), b.Mine, fast.ID)
			return errors.Join(err, other.Feed.CatchUp(t.Context()))
		})
		must.NoError(t, err)
		must.NoError(t, other.Feed.CatchUp(t.Context()))
		target, err := other.Resolver.Resolve(t.Context(), resolve.Address{Code: slow.Code}, time.Now(), nil)
		if err != nil || target.RedirectStatus != 307 {
			t.Errorf("%d, want 307: %v", target.RedirectStatus, err)
		}
	})
}
