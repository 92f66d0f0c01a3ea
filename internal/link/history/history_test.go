package history_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// noon is when the tests begin.
var noon = dbtest.Noon

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

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

// TestStore_VersionsHaveNoGaps makes random changes: versions are numbered without gaps, each
// begins where its predecessor ends, each has one event, and each state can be read at its instant
// and restored.
func TestStore_VersionsHaveNoGaps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		random := rand.New(rand.NewPCG(28, 1))
		l := b.Make(t,
			creation.Input{URL: "https://example.com/0", Strategy: new(link.Random), Tags: []string{"text 0"}})
		states := map[time.Time]link.Snapshot{}
		for range 40 {
			b.Tick()
			switch at := b.Reload(t, l); {
			case at.DeletedAt != nil:
				must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
			case random.IntN(10) == 0:
				must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
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
			got := must.Value(b.History.AsOf(t.Context(), now, at))(t)
			linktest.Equal(t, want, got.Snapshot, "at %s", at)
		}
		for i, e := range b.Events(t, len(all)) {
			if e.Version == nil || *e.Version != i+1 {
				t.Errorf("event %d is %s of version %v", i, e.Action, e.Version)
			}
		}
		b.ExpectConsistent(t)
	})
}

// TestStore_PurgeForgetsHistory deletes the versions; the link begins again with the first one.
func TestStore_PurgeForgetsHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		for _, strategy := range []link.Strategy{link.Random, link.Deterministic} {
			l := b.Make(t, creation.Input{URL: "https://example.com/secret", Strategy: new(strategy)})
			b.Change(t, l, link.Change{Title: to(new("secret"))})
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		b.Now = b.Now.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		var left int
		err := d.NewSelect().Table("link_versions").ColumnExpr("count(*)").Scan(db.AsSystem(t.Context()), &left)
		if err != nil || left != 0 {
			t.Errorf("%d versions are left: %v", left, err)
		}
		again := b.Make(t, creation.Input{URL: "https://example.com/secret", Strategy: new(link.Deterministic)})
		if all := b.AllVersions(t, again); len(all) != 1 || all[0].Number != 1 {
			t.Errorf("%d versions of a link that was purged before", len(all))
		}
		b.ExpectConsistent(t)
	})
}
