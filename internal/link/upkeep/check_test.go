package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// due takes destinations and returns their URLs in order.
func (b *bundle) due(t *testing.T, limit int) []string {
	t.Helper()
	taken := must.Value(b.DueChecks(t.Context(), limit))(t)
	urls := make([]string, 0, len(taken))
	for _, d := range taken {
		urls = append(urls, d.URL)
	}
	slices.Sort(urls)
	return urls
}

func TestUpkeep_DueChecksReturnsEachOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		urls := make([]string, 3)
		for i := range urls { // the last one has waited longest
			urls[i] = fmt.Sprintf("https://example.com/%d", i)
			l := b.create(t, creation.Input{URL: urls[i]})
			b.Set(t, l, "check_at = ?", noon.Add(-time.Duration(i)*time.Hour))
		}
		for _, want := range [][]string{urls[1:], urls[:1], {}} {
			linktest.Equal(t, want, b.due(t, 2), "difference")
		}
		b.Now = noon.Add(CheckLease - time.Microsecond)
		if got := b.due(t, 5); len(got) > 0 {
			t.Errorf("taken by two: %s", got)
		}
		b.Now = noon.Add(CheckLease) // the node with the lease has died
		linktest.Equal(t, urls, b.due(t, 5), "after the claim")
	})
}

func TestUpkeep_DueChecksOmitsEndedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var want []string
		for column, due := range map[string]bool{
			"deleted_at = ?": false, "disabled_at = ?": false, "purged_at = ?": false, "expires_at = ?": false,
			"starts_at = ?": true, "archived_at = ?": true, "check_at = ?": true,
		} {
			l := b.create(t, creation.Input{URL: "https://example.com/" + column[:3]})
			b.Set(t, l, column, noon)
			if due {
				want = append(want, l.OriginalURL)
			}
		}
		never := b.create(t, creation.Input{URL: "https://example.com/never"})
		b.Set(t, never, "check_at = NULL")
		later := b.create(t, creation.Input{URL: "https://example.com/later"})
		b.Set(t, later, "check_at = ?", noon.Add(time.Microsecond))
		slices.Sort(want)
		linktest.Equal(t, want, b.due(t, 100), "difference")
	})
}

func TestUpkeep_DueChecksConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const links = 60
		for i := range links {
			b.create(t, creation.Input{URL: fmt.Sprintf("https://example.com/%d", i)})
		}
		var mu sync.Mutex
		taken := map[string]int{}
		take := func() int {
			due, err := b.DueChecks(t.Context(), 7)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, one := range due {
				taken[one.LinkID]++
			}
			return len(due)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for take() > 0 {
				}
			})
		}
		all.Wait()
		for take() > 0 { // destinations that were locked by another caller
		}
		for linkID, times := range taken {
			if times != 1 {
				t.Errorf("%s was taken %d times", linkID, times)
			}
		}
		if len(taken) != links {
			t.Errorf("%d destinations taken, want %d", len(taken), links)
		}
	})
}

func TestUpkeep_Checked(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.create(t, creation.Input{URL: "https://example.com/"})
		seen := b.Reload(t, l)
		at, next := noon.Add(time.Minute), noon.Add(time.Hour)
		record := func(url string, status *int, failures int) *link.Link {
			must.NoError(t, b.RecordCheck(t.Context(), Due{LinkID: l.ID, URL: url, Failures: failures},
				CheckResult{Status: status, At: at, Next: next}))
			return b.Reload(t, l)
		}
		if diff := cmp.Diff(seen.CheckAt, record("https://example.com/before", new(200), 0).CheckAt); diff != "" {
			t.Errorf("an answer for another URL (-before +after):\n%s", diff)
		}
		got := record(l.OriginalURL, new(404), 3)
		if *got.DestinationStatus != 404 || !got.LastCheckedAt.Equal(at) || !got.CheckAt.Equal(next) ||
			got.CheckFailures != 3 {
			t.Errorf("%+v", got)
		}
		if !got.UpdatedAt.Equal(seen.UpdatedAt) {
			t.Error("the link counts as changed")
		}
		if got := record(l.OriginalURL, nil, 4); got.DestinationStatus != nil || got.CheckFailures != 4 {
			t.Errorf("no answer: %+v", got)
		}
	})
}

func TestUpkeep_PostponeChecks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		kept := b.create(t, creation.Input{URL: "https://example.com/kept"})
		edited := b.create(t, creation.Input{URL: "https://example.com/edited"})
		b.Set(t, kept, "destination_status = 200")
		due, err := b.DueChecks(t.Context(), 5)
		if err != nil || len(due) != 2 {
			t.Fatalf("%d due: %v", len(due), err)
		}
		b.Set(t, edited, "check_at = ?", noon)
		must.NoError(t, b.PostponeChecks(t.Context(), due, noon.Add(time.Hour)))
		if got := b.Reload(t, kept); !got.CheckAt.Equal(noon.Add(time.Hour)) || *got.DestinationStatus != 200 ||
			got.LastCheckedAt != nil {
			t.Errorf("%+v", got)
		}
		linktest.Equal(t, []string{"https://example.com/edited"}, b.due(t, 5), "due")
	})
}

// TestPostponeChecks_SkipsLockedRows postpones several URLs while one link and one URL of a routing
// are locked: only the others are postponed beyond CheckLease.
func TestPostponeChecks_SkipsLockedRows(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	b.create(t, creation.Input{URL: "https://example.com/locked"})
	b.routed(t, "locked/target", "ended", "pending")
	due, err := b.DueChecks(t.Context(), 100)
	if err != nil || len(due) != 5 {
		t.Fatalf("%d due: %v", len(due), err)
	}
	dbtest.WhileLocked(t, d, "links", "original_url = 'https://example.com/locked'", func(ctx context.Context) {
		dbtest.WhileLocked(t, d, "link_urls", "url = 'https://example.com/locked/target'", func(context.Context) {
			if err := b.PostponeChecks(ctx, due, noon.Add(2*CheckLease)); err != nil {
				t.Error(err)
			}
		})
	})
	b.Now = noon.Add(CheckLease)
	want := []string{"https://example.com/locked", "https://example.com/locked/target"}
	linktest.Equal(t, want, b.due(t, 100), "due after the lease")
}

// states returns the URLs of a link in order with their states.
func (b *bundle) states(t *testing.T, l *link.Link) (states []string) {
	t.Helper()
	checks := must.Value(b.RoutingChecks(t.Context(), b.Mine, l.ID))(t)
	for _, c := range b.Reload(t, l).Checks(checks[l.ID]) {
		states = append(states, fmt.Sprintf("%s %s", strings.Join(c.Field, "."), c.State()))
	}
	return states
}

func TestUpkeep_DueChecksIncludesRoutings(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		expired := b.routed(t, "expired", "after", "{code}")
		b.Set(t, expired, "expires_at = ?", noon)
		deleted := b.routed(t, "deleted", "deleted-after", "deleted-before")
		b.Set(t, deleted, "deleted_at = ?", noon)
		active := b.routed(t, "active", "active-after", "before")
		want := []string{
			"https://example.com/active", "https://example.com/active-after", "https://example.com/after",
			"https://example.com/before", "https://example.com/own/active",
		}
		linktest.Equal(t, want, b.due(t, 100), "difference")
		if got := b.due(t, 100); len(got) > 0 {
			t.Errorf("taken by two: %s", got)
		}
		b.Now = noon.Add(CheckLease)
		if got := b.due(t, 4); len(got) != 3 { // one destination, and half of the batch
			t.Errorf("got %s", got)
		}
		must.NoError(t, b.RequestChecks(t.Context(), active.ID))
		got := b.due(t, 100)
		for _, url := range []string{"active", "active-after", "before"} {
			if !slices.Contains(got, "https://example.com/"+url) {
				t.Errorf("%s is not due after a request: %s", url, got)
			}
		}
	})
}

func TestUpkeep_CheckedRecordsRoutings(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, other := b.routed(t, "a", "b", "c"), b.routed(t, "d", "b", "c")
		at, next := noon.Add(time.Minute), noon.Add(time.Hour)
		for url, status := range map[string]*int{"own/a": new(403), "a": new(200), "b": new(404), "c": nil} {
			due := Due{LinkID: l.ID, URL: "https://example.com/" + url, Failures: 2}
			must.NoError(t, b.RecordCheck(t.Context(), due, CheckResult{Status: status, At: at, Next: next}))
		}
		const rule = "routing.rules.0.targets.0.url "
		want := []string{"url OK", rule + "OK", "routing.pendingUrl UNREACHABLE", "routing.endedUrl BROKEN"}
		linktest.Equal(t, want, b.states(t, l), "difference")
		want = []string{"url UNCHECKED", rule + "UNCHECKED", "routing.pendingUrl UNCHECKED",
			"routing.endedUrl UNCHECKED"}
		linktest.Equal(t, want, b.states(t, other), "another link")
		change := link.Change{ID: l.ID, Routing: optional.Set(routingTo("new", "b", "a"))}
		must.Value(b.Edit.Update(t.Context(), b.Mine, change))(t)
		want = []string{"url OK", rule + "UNCHECKED", "routing.pendingUrl OK", "routing.endedUrl BROKEN"}
		linktest.Equal(t, want, b.states(t, l), "after an edit")
		if due := b.due(t, 100); !slices.Contains(due, "https://example.com/new") {
			t.Errorf("the new URL is not due: %s", due)
		}
	})
}

func TestUpkeep_PostponeChecksOfRoutings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.routed(t, "a", "b", "c")
		due := must.Value(b.DueChecks(t.Context(), 100))(t)
		due = slices.DeleteFunc(due, func(d Due) bool { return d.URL != "https://example.com/a" })
		must.NoError(t, b.PostponeChecks(t.Context(), due, noon.Add(time.Hour)))
		b.Now = noon.Add(CheckLease)
		want := []string{"https://example.com/b", "https://example.com/c", "https://example.com/own/a"}
		linktest.Equal(t, want, b.due(t, 100), "difference")
	})
}
