package edit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle struct {
	*creationtest.World
	last hitquota.Grant
	// followed are the replacements of tags that webhooks follow.
	followed []string
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{World: creationtest.New(t, d)}
	b.Edit.ReplaceWebhookTags = func(_ context.Context, _ bun.Tx, m workspace.Membership, from []string,
		to *string) error {
		b.followed = append(b.followed, fmt.Sprint(m.Slug(), from, optional.Or(to, "none")))
		return nil
	}
	return b
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

var (
	custom, pairs, urls = creationtest.Custom, linktest.Pairs, creationtest.URLs
	kindOf, outcomes    = linktest.KindOf, linktest.Outcomes
)

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

// grant requests one redirect of a link with MaxClicks, and expects want grants.
func (b *bundle) grant(t *testing.T, l *link.Link, want int) {
	t.Helper()
	grant, ok, err := b.Grants.Grant(t.Context(), l.ID)
	if err != nil || ok != (want == 1) {
		t.Fatalf("granted %t, want %d: %v", ok, want, err)
	}
	if ok {
		b.last = grant
	}
}

// giveBack returns the last granted redirect.
func (b *bundle) giveBack(t *testing.T, l *link.Link) {
	t.Helper()
	before := b.granted(t, l)
	for range 2 { // the second time changes nothing
		b.last.Release()
	}
	polltest.Until(t, "the grant has returned", func() bool { return b.granted(t, l) == before-1 })
}

func (b *bundle) granted(t *testing.T, l *link.Link) int64 {
	t.Helper()
	return must.Value(b.Get(t.Context(), b.Mine, l.ID))(t).Granted
}

func TestStore_UpdateManyAndDeleteMany(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var changes []linkfield.Change
		var ids []string
		for _, r := range b.MakeMany(t, link.SkipFailed, urls(0, 50)...) {
			title := "title of " + r.Link.OriginalURL
			changes = append(changes,
				linkfield.Change{ID: r.Link.ID, Title: to(&title), Tags: to([]string{r.Link.Code})})
			ids = append(ids, r.Link.ID)
		}
		theirs, _, err := b.Create(t.Context(), b.Foreign, creation.Input{URL: "https://example.com/theirs"})
		must.NoError(t, err)
		bad := []linkfield.Change{{ID: theirs.ID, RedirectStatus: to(301)}, {ID: ids[0], RedirectStatus: to(200)},
			{ID: "x\x00"}}
		results, err := b.Edit.UpdateMany(t.Context(), b.Mine, slices.Concat(changes, bad), link.AllOrNothing)
		if err != nil ||
			!cmp.Equal(outcomes(results)[48:], []string{"CONFLICT", "CONFLICT", "NOT_FOUND", "INVALID_INPUT",
				"NOT_FOUND"}) {
			t.Errorf("%v: %v", outcomes(results), err)
		}
		if l, err := b.Get(t.Context(), b.Mine, ids[7]); err != nil || l.Title != nil || len(b.Tags(t, l)) != 0 {
			t.Errorf("nothing was to be done: %+v, %v", l, err)
		}
		// A link that is named twice is changed twice.
		changes = append(changes, linkfield.Change{ID: ids[7], RedirectStatus: to(307)}, bad[1])
		results, err = b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed)
		if err != nil || !cmp.Equal(outcomes(results)[49:], []string{"there", "there", "INVALID_INPUT"}) {
			t.Errorf("%v: %v", outcomes(results), err)
		}
		for i, linkID := range ids {
			l, err := b.Get(t.Context(), b.Mine, linkID)
			if err != nil || *l.Title != "title of "+l.OriginalURL || !cmp.Equal(b.Tags(t, l), []string{l.Code}) ||
				(l.RedirectStatus == 307) != (i == 7) {
				t.Errorf("%+v, %v", l, err)
			}
		}
		results, err = b.Edit.DeleteMany(t.Context(), b.Mine, append(ids, theirs.ID, ids[0]), link.SkipFailed)
		if err != nil || !cmp.Equal(outcomes(results)[49:], []string{"there", "NOT_FOUND", "there"}) {
			t.Errorf("%v: %v", outcomes(results), err)
		}
		for _, linkID := range ids {
			if l, err := b.Get(t.Context(), b.Mine, linkID); err != nil || l.Status(b.Now) != routing.Deleted {
				t.Errorf("%+v, %v", l, err)
			}
		}
		for _, n := range []int{0, link.MaxBatch + 1} {
			linktest.Refused(
				b.Edit.DeleteMany(t.Context(), b.Mine, make([]string, n), link.SkipFailed),
			)(t, errs.InvalidInput, "%d links", n)
		}
	})
}

func TestStore_MaxClicksCountsFromTheFirstClick(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		b.Follow(t, l, 3)
		four, three := int64(4), int64(3)
		l = b.Change(t, l, linkfield.Change{MaxClicks: to(&four)})
		if l.Status(b.Now) != routing.Active || l.Granted != 3 {
			t.Errorf("%d granted, %s", l.Granted, l.Status(b.Now))
		}
		b.grant(t, l, 1)
		b.grant(t, l, 0)
		b.giveBack(t, l)
		b.grant(t, l, 1)
		if l = b.Change(t, l, linkfield.Change{MaxClicks: to(&three)}); l.Status(b.Now) != routing.Exhausted {
			t.Errorf("with fewer allowed: %s", l.Status(b.Now))
		}
		b.Change(t, l, linkfield.Change{MaxClicks: to(new(int64(6)))}) // grants count although no click was recorded
		b.grant(t, l, 1)
		b.grant(t, l, 1)
		b.grant(t, l, 0)
		if l = b.Change(t, l, linkfield.Change{MaxClicks: to[*int64](nil)}); l.Status(b.Now) != routing.Active {
			t.Errorf("with any number allowed: %s", l.Status(b.Now))
		}
		b.grant(t, l, 1)
	})
}

// TestStore_MaxClicksCountsUnwrittenClicks: clicks that this node has recorded, and the database
// does not have yet.
func TestStore_MaxClicksCountsUnwrittenClicks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		click := func(l *link.Link) {
			t.Helper()
			b.Clicks.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: b.Now})
		}
		five := int64(5)
		edited := b.Make(t, creation.Input{URL: "https://example.com/edited"})
		click(edited)
		if got := b.Change(t, edited, linkfield.Change{MaxClicks: to(&five)}); got.Granted != 1 {
			t.Errorf("%d granted, want the one that was answered", got.Granted)
		}
		revived := b.Make(t, creation.Input{URL: "https://example.com/revived"})
		click(revived)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, revived.ID))(t)
		if got := b.Make(t,
			creation.Input{URL: "https://example.com/revived",
				Fields: linkfield.Change{MaxClicks: optional.Set(&five)}}); got.Granted != 1 {
			t.Errorf("%d granted after a revival, want the one that was answered", got.Granted)
		}
	})
}

// stuckClicks is a store of clicks that is unavailable.
type stuckClicks struct {
	link.Clicks
	flushes atomic.Int64
}

func (s *stuckClicks) Flush(ctx context.Context) error {
	s.flushes.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// TestStore_MaxClicksNeedsNoClickStore: clicks of a backlog are awaited for a short time, and only
// if a maximum is set.
func TestStore_MaxClicksNeedsNoClickStore(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		stuck := &stuckClicks{Clicks: b.Clicks}
		b.Links.Clicks = stuck
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		b.Change(t, l, linkfield.Change{MaxClicks: to[*int64](nil)})
		must.Value(b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil))(t)
		if n := stuck.flushes.Load(); n != 0 {
			t.Errorf("clicks were awaited %d times without a maximum", n)
		}
		b.Change(t, l, linkfield.Change{MaxClicks: to(new(int64(5)))})
		operation := must.Value(b.Edit.UpdateMany(t.Context(), b.Mine,
			[]linkfield.Change{{ID: l.ID, MaxClicks: to[*int64](nil)}}, link.SkipFailed))(t)
		must.Value(b.Edit.RevertOperation(t.Context(), b.Mine, *link.OperationOf(operation)))(t)
		b.Make(t, creation.Input{URL: "https://example.com/new",
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(5)))}})
		if l = b.Reload(t, l); l.MaxClicks == nil || stuck.flushes.Load() != 3 {
			t.Errorf("maxClicks %v after %d waits", l.MaxClicks, stuck.flushes.Load())
		}
	})
}

// TestStore_LateClicksCountTowardsMaxClicks: clicks that were in the click log of another node when
// the maximum was set, or when the database was restored. Grants without a click stay granted.
func TestStore_LateClicksCountTowardsMaxClicks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		late := b.Make(t, creation.Input{URL: "https://example.com/late",
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(5)))}})
		granted := b.Make(t, creation.Input{URL: "https://example.com/granted",
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(5)))}})
		unlimited := b.Make(t, creation.Input{URL: "https://example.com/unlimited"})
		b.grant(t, late, 1)
		b.grant(t, granted, 1)
		b.grant(t, granted, 1)
		b.Follow(t, granted, 1)
		b.Follow(t, unlimited, 9)
		for _, want := range []int64{2, 4, 6} {
			b.Follow(t, late, 2)
			must.NoError(t, b.Grants.RaiseGrants(t.Context()))
			if l := must.Value(b.Get(t.Context(), b.Mine, late.ID))(t); l.Granted != want ||
				(l.Status(b.Now) == routing.Exhausted) != (want >= 5) {
				t.Errorf("%d granted, want %d: %s", l.Granted, want, l.Status(b.Now))
			}
		}
		b.grant(t, late, 0)
		if l := must.Value(b.Get(t.Context(), b.Mine, granted.ID))(t); l.Granted != 2 {
			t.Errorf("%d granted, want those of redirects in flight, too", l.Granted)
		}
	})
}

func TestStore_UpdateManyBoundsStatements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var statements dbtest.Counter
		b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
		var in []*creation.Input
		for i := range 60 {
			in = append(in, &creation.Input{URL: fmt.Sprintf("https://example.com/%d", i), Strategy: new(link.Random)})
		}
		var changes []linkfield.Change
		hundred := int64(100)
		for i, r := range b.MakeMany(t, link.SkipFailed, in...) {
			changes = append(changes, linkfield.Change{
				ID: r.Link.ID, URL: to(fmt.Sprintf("https://host-%d.example.com/", i)), MaxClicks: to(&hundred),
				Tags: to([]string{"a", "b"}),
			})
		}
		before := statements.Load()
		must.Value(b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed))(t)
		if n := statements.Load() - before; n > 14 {
			t.Errorf("%d statements", n)
		}
	})
}

// TestStore_ReadersKnowWhatIsGranted: the count is in another table, which each way to read a link
// must read, too.
func TestStore_ReadersKnowWhatIsGranted(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := &creation.Input{URL: "https://example.com/", Strategy: new(link.Deterministic),
			Fields: linkfield.Change{ExternalID: optional.Set(new("a")), MaxClicks: to(new(int64(1)))}}
		l := must.Value(b.Upsert(t.Context(), b.Mine, in))(t).Link
		b.grant(t, l, 1)
		at := must.Value(b.Resolver.ParseShortURL(b.ShortURL(l)))(t)
		for name, read := range map[string]func() (*link.Link, error){
			"Get":           func() (*link.Link, error) { return b.Get(t.Context(), b.Mine, l.ID) },
			"At":            func() (*link.Link, error) { return b.At(t.Context(), at) },
			"ByPastAddress": func() (*link.Link, error) { return b.History.ByPastAddress(t.Context(), at, b.Now) },
			"Many": func() (*link.Link, error) {
				links, err := b.Many(t.Context(), b.Mine, l.ID)
				return links[l.ID], err
			},
			"FindLinks": func() (*link.Link, error) {
				found, err := (&moderation.Store{DB: b.DB, Links: b.Links, Now: b.Links.Now}).
					FindLinks(t.Context(), l.ID, 1)
				return &found[0].Link, err
			},
			"Create": func() (*link.Link, error) {
				found, _, err := b.Create(t.Context(), b.Mine,
					creation.Input{URL: in.URL, Fields: linkfield.Change{ExternalID: in.Fields.ExternalID,
						MaxClicks: optional.Set(new(int64(1)))}})
				return found, err
			},
			"Upsert": func() (*link.Link, error) {
				u, err := b.Upsert(t.Context(), b.Mine, in)
				return u.Link, err
			},
			"Update": func() (*link.Link, error) {
				return b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: l.ID, Title: to(new("new"))})
			},
			"a due change": func() (*link.Link, error) {
				b.Plan(t, l, time.Minute, linkfield.Change{Note: to(new("due"))})
				b.Now = b.Now.Add(time.Minute)
				return b.Get(t.Context(), b.Mine, l.ID)
			},
		} {
			if got := must.Value(read())(t); got.Status(b.Now) != routing.Exhausted {
				t.Errorf("%s: %s, %d granted", name, got.Status(b.Now), got.Granted)
			}
		}
	})
}

// TestEvents_HaveTheOrderOfVersions: of calls that change the same links at the same time, too. A
// call may have begun to write, and wait for the lock of a link, before another changes that link.
func TestEvents_HaveTheOrderOfVersions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := make([]string, 20)
		for i := range ids {
			l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
			ids[i] = l.ID
		}
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for i := range 30 {
					var changes []linkfield.Change
					for _, n := range rand.Perm(len(ids))[:1+rand.IntN(len(ids)/2)] {
						changes = append(changes, linkfield.Change{ID: ids[n], Title: to(new(fmt.Sprint(caller, i)))})
					}
					if _, err := b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		expected := 0
		for _, linkID := range ids {
			expected += b.Reload(t, &link.Link{ID: linkID}).Version
		}
		seen := map[string]int{}
		for _, e := range b.Events(t, expected) {
			if *e.Version != seen[e.TargetID]+1 {
				t.Errorf("version %d of %s follows %d", *e.Version, e.TargetID, seen[e.TargetID])
			}
			seen[e.TargetID] = *e.Version
		}
	})
}
