package link_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
)

// randomChange returns a change of up to three fields, perhaps to their present values.
func randomChange(random *rand.Rand, l *link.Link) link.Change {
	c := link.Change{ID: l.ID}
	for range 1 + random.IntN(3) {
		text := new(fmt.Sprint("text ", random.IntN(3)))
		switch random.IntN(7) {
		case 0:
			c.Title = to(text)
		case 1:
			c.Note = to(text)
		case 2:
			c.Tags = to([]string{*text})
		case 3:
			c.URL = to(fmt.Sprint("https://example.com/", random.IntN(3)))
		case 4:
			c.Archived = to(random.IntN(2) == 0)
		case 5:
			c.MaxClicks = to(new(int64(1000 + random.IntN(2))))
		case 6:
			c.Routing = to(&routing.Change{EndedURL: optional.Set(new("https://example.com/" + (*text)[5:]))})
		}
	}
	return c
}

// TestStore_VersionsHaveNoGaps makes random changes: versions are numbered without gaps, each begins where
// its predecessor ends, each has one event, and each state can be read at its instant and restored.
func TestStore_VersionsHaveNoGaps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		random := rand.New(rand.NewPCG(28, 1))
		l, _ := b.create(t, link.New{URL: "https://example.com/0", Strategy: new(link.Random), Tags: []string{"text 0"}})
		states := map[time.Time]link.Snapshot{}
		for range 40 {
			b.Tick()
			switch at := b.Reload(t, l); {
			case at.DeletedAt != nil:
				must.Value(b.Restore(t.Context(), b.Mine, l.ID))(t)
			case random.IntN(10) == 0:
				must.Value(b.Delete(t.Context(), b.Mine, l.ID))(t)
			default:
				b.Change(t, l, randomChange(random, l))
			}
			states[b.Now] = b.AllVersions(t, l)[0].Snapshot
		}
		all := b.AllVersions(t, l)
		for i, v := range all {
			if v.Number != len(all)-i || (v.To == nil) != (i == 0) || i > 0 && !v.To.Equal(all[i-1].From) {
				t.Errorf("version %d of %d from %s to %v", v.Number, len(all), v.From, v.To)
			}
			if v.Cause == link.CauseUpdated && len(v.Changes) == 0 {
				t.Errorf("version %d changes nothing", v.Number)
			}
		}
		now := b.Reload(t, l)
		now.In = b.Mine
		for at, want := range states {
			got := must.Value(b.AsOf(t.Context(), now, at))(t)
			if diff := cmp.Diff(want, got.Snapshot); diff != "" {
				t.Errorf("at %s (-want +got):\n%s", at, diff)
			}
		}
		for i, e := range b.events(t, len(all)) {
			if e.Version == nil || *e.Version != i+1 {
				t.Errorf("event %d is %s of version %v", i, e.Action, e.Version)
			}
		}
		if got := b.Differences(t); len(got) > 0 {
			t.Errorf("links verify: %v", got)
		}
	})
}

// events waits until the feed of the workspace has n events, and returns them. On PostgreSQL, an event
// waits for all transactions that began before its own.
func (b *bundle) events(t *testing.T, n int) (all []*audit.Event) {
	t.Helper()
	polltest.Until(t, fmt.Sprint("the feed has ", n, " events"), func() bool {
		all = b.feed(t)
		return len(all) == n
	})
	return all
}

// feed reads the feed page by page.
func (b *bundle) feed(t *testing.T) (all []*audit.Event) {
	t.Helper()
	for after := ""; ; {
		p, head, err := audit.Feed(db.AsSystem(t.Context()), b.DB, b.Mine.ID(), audit.FeedRequest{
			Actions: audit.LinkActions, After: after, Size: 7,
		}, b.Now)
		must.NoError(t, err)
		all = append(all, p.Items...)
		if !p.HasNext {
			// events can become visible after head was read
			if head != "" && !slices.ContainsFunc(all, func(e *audit.Event) bool { return e.ID == head }) {
				t.Errorf("the newest event is %s, which the feed has not", head)
			}
			return all
		}
		after = p.Cursors[len(p.Cursors)-1]
	}
}

// TestStore_ChangeWithoutEffect leaves no trace.
func TestStore_ChangeWithoutEffect(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/0", Title: new("a"), Tags: []string{"x", "y"}})
		b.Tick()
		same := b.Change(t, l, link.Change{Title: to(new("a")), Tags: to([]string{"y", "x"})})
		if stored := b.Reload(t, l); !same.UpdatedAt.Equal(l.UpdatedAt) || !stored.UpdatedAt.Equal(l.UpdatedAt) {
			t.Errorf("updated at %s, stored as %s, want %s", same.UpdatedAt, stored.UpdatedAt, l.UpdatedAt)
		}
		if n := len(b.AllVersions(t, l)); n != 1 {
			t.Errorf("%d versions", n)
		}
		b.events(t, 1)
	})
}

// TestStore_RevertRestoresAVersion reverts to each version: the snapshots are equal, and deletion stays.
func TestStore_RevertRestoresAVersion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		rule := &routing.Rule{Targets: []*routing.Target{{URL: new("https://example.com/target"), MaxClicks: new(int64(5))}}}
		l, _ := b.create(t, link.New{URL: "https://example.com/0", Strategy: new(link.Random), Tags: []string{"x"},
			Routing: &routing.Change{Rules: optional.Set([]*routing.Rule{rule})}})
		b.Tick()
		expires := b.Now.Add(time.Hour)
		b.Change(t, l, link.Change{
			URL: to("https://example.com/1"), Title: to(new("second")), Tags: to([]string{}), ExpiresAt: to(&expires),
			Routing: to[*routing.Change](nil), MaxClicks: to(new(int64(3))),
		})
		for _, number := range []int{1, 2} {
			b.Tick()
			got := must.Value(b.Revert(t.Context(), b.Mine, l.ID, number, nil))(t)
			all := b.AllVersions(t, l)
			if diff := cmp.Diff(all[len(all)-number].Snapshot, all[0].Snapshot); diff != "" || all[0].Cause != link.CauseReverted {
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
		if _, err := b.Revert(t.Context(), b.Mine, l.ID, 2, nil); err != nil || len(b.AllVersions(t, l)) != before {
			t.Errorf("reverting to the present state: %d versions, want %d: %v", len(b.AllVersions(t, l)), before, err)
		}
		if _, err := b.Revert(t.Context(), b.Mine, l.ID, 99, nil); !errs.Is(err, errs.NotFound) {
			t.Errorf("an unknown version: %v", err)
		}
		stale := noon
		if _, err := b.Revert(t.Context(), b.Mine, l.ID, 1, &stale); !errs.Is(err, errs.Conflict) {
			t.Errorf("a stale updatedAt: %v", err)
		}
		if _, err := b.Revert(t.Context(), b.Foreign, l.ID, 1, nil); !errs.Is(err, errs.NotFound) {
			t.Errorf("of another workspace: %v", err)
		}
	})
}

// TestStore_PurgeForgetsHistory deletes the versions; the link begins again with the first one.
func TestStore_PurgeForgetsHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for _, strategy := range []link.Strategy{link.Random, link.Deterministic} {
			l, _ := b.create(t, link.New{URL: "https://example.com/secret", Strategy: new(strategy)})
			b.Change(t, l, link.Change{Title: to(new("secret"))})
			must.Value(b.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		b.Now = b.Now.Add(b.Tombstones)
		b.CleanUp(t)
		var left int
		err := d.NewSelect().Table("link_versions").ColumnExpr("count(*)").Scan(db.AsSystem(t.Context()), &left)
		if err != nil || left != 0 {
			t.Errorf("%d versions are left: %v", left, err)
		}
		again, _ := b.create(t, link.New{URL: "https://example.com/secret", Strategy: new(link.Deterministic)})
		if all := b.AllVersions(t, again); len(all) != 1 || all[0].Number != 1 {
			t.Errorf("%d versions of a link that was purged before", len(all))
		}
		if got := b.Differences(t); len(got) > 0 {
			t.Errorf("links verify: %v", got)
		}
	})
}

// TestStore_RevertKeepsPromises checks that a revert neither shortens the tombstone of a link nor bypasses
// the operator.
func TestStore_RevertKeepsPromises(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		soon, later := noon.Add(time.Hour), noon.AddDate(1, 0, 0)
		l, _ := b.create(t, link.New{
			URL: "https://example.com/0", Strategy: new(link.Random), ExpiresAt: &soon,
			Routing: &routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))},
		})
		b.Tick()
		b.Change(t, l, link.Change{ExpiresAt: to(&later), Routing: to[*routing.Change](nil)})
		b.Now = noon.AddDate(0, 6, 0) // much longer than the tombstone
		got, err := b.Revert(t.Context(), b.Mine, l.ID, 1, nil)
		if err != nil || got.Status(b.Now) != routing.Expired {
			t.Fatalf("%s, %v", got.Status(b.Now), err)
		}
		b.CleanUp(t)
		if n := len(b.AllVersions(t, l)); n != 3 {
			t.Errorf("%d versions are left after a clean-up", n)
		}
		b.Set(t, l, "disabled_at = ?", noon)
		_, err = b.Revert(t.Context(), b.Mine, l.ID, 2, nil)
		if e := errs.From(err); e == nil || e.Kind != errs.UnsafeURL {
			t.Errorf("other URLs of a disabled link: %v", err)
		}
	})
}

// TestStore_ClaimedLinkHasItsFirstVersion disables and enables an anonymous link before the claim: without
// an account, it has one version.
func TestStore_ClaimedLinkHasItsFirstVersion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, token, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "https://example.com/anonymous")
		must.NoError(t, err)
		for _, at := range []*time.Time{&noon, nil} {
			b.Tick()
			must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				locked, err := b.At(ctx, resolve.Address{Code: l.Code})
				if err != nil {
					return err
				}
				return b.SetDisabledAt(ctx, tx, at, locked)
			}))
		}
		b.Tick()
		claims, err := b.Claim(t.Context(), b.Mine, []string{token})
		if err != nil || claims[0].Err != nil {
			t.Fatal(err, claims)
		}
		all := b.AllVersions(t, l)
		if len(all) != 2 || all[0].Cause != link.CauseClaimed || all[1].Cause != link.CauseCreated || !all[1].From.Equal(l.CreatedAt) {
			t.Errorf("%+v", all)
		}
	})
}
