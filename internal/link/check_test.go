package link

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// due takes destinations and returns their URLs in order.
func (b *bundle) due(t *testing.T, limit int) []string {
	t.Helper()
	taken, err := b.DueChecks(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	urls := make([]string, 0, len(taken))
	for _, d := range taken {
		urls = append(urls, d.URL)
	}
	slices.Sort(urls)
	return urls
}

// set writes a column of the link.
func (b *bundle) set(t *testing.T, l *Link, assignment string, args ...any) {
	t.Helper()
	if _, err := b.DB.NewUpdate().Model((*Link)(nil)).Set(assignment, args...).Where("id = ?", l.ID).
		Exec(db.AsSystem(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) get(t *testing.T, l *Link) *Link {
	t.Helper()
	got, err := b.Get(t.Context(), b.mine, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStore_DueChecksReturnsEachOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		urls := make([]string, 3)
		for i := range urls { // the last one has waited longest
			urls[i] = fmt.Sprintf("https://example.com/%d", i)
			l, _ := b.create(t, New{URL: urls[i]})
			b.set(t, l, "check_at = ?", noon.Add(-time.Duration(i)*time.Hour))
		}
		for _, want := range [][]string{urls[1:], urls[:1], {}} {
			if diff := cmp.Diff(want, b.due(t, 2)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		b.now = noon.Add(CheckLease - time.Microsecond)
		if got := b.due(t, 5); len(got) > 0 {
			t.Errorf("taken by two: %s", got)
		}
		b.now = noon.Add(CheckLease) // the node with the lease has died
		if diff := cmp.Diff(urls, b.due(t, 5)); diff != "" {
			t.Errorf("after the claim (-want +got):\n%s", diff)
		}
	})
}

func TestStore_DueChecksOmitsEndedLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var want []string
		for column, due := range map[string]bool{
			"deleted_at = ?": false, "disabled_at = ?": false, "purged_at = ?": false, "expires_at = ?": false,
			"starts_at = ?": true, "archived_at = ?": true, "check_at = ?": true,
		} {
			l, _ := b.create(t, New{URL: "https://example.com/" + column[:3]})
			b.set(t, l, column, noon)
			if due {
				want = append(want, l.OriginalURL)
			}
		}
		never, _ := b.create(t, New{URL: "https://example.com/never"})
		b.set(t, never, "check_at = NULL")
		later, _ := b.create(t, New{URL: "https://example.com/later"})
		b.set(t, later, "check_at = ?", noon.Add(time.Microsecond))
		slices.Sort(want)
		if diff := cmp.Diff(want, b.due(t, 100)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestStore_DueChecksConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		const links = 60
		for i := range links {
			b.create(t, New{URL: fmt.Sprintf("https://example.com/%d", i)})
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

func TestStore_Checked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, New{URL: "https://example.com/"})
		seen := b.get(t, l)
		at, next := noon.Add(time.Minute), noon.Add(time.Hour)
		record := func(url string, status *int, failures int) *Link {
			if err := b.Checked(t.Context(), l.ID, url, status, failures, at, next); err != nil {
				t.Fatal(err)
			}
			return b.get(t, l)
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

func TestStore_PostponeChecks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		kept, _ := b.create(t, New{URL: "https://example.com/kept"})
		edited, _ := b.create(t, New{URL: "https://example.com/edited"})
		b.set(t, kept, "destination_status = 200")
		due, err := b.DueChecks(t.Context(), 5)
		if err != nil || len(due) != 2 {
			t.Fatalf("%d due: %v", len(due), err)
		}
		b.set(t, edited, "check_at = ?", noon)
		if err := b.PostponeChecks(t.Context(), due, noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := b.get(t, kept); !got.CheckAt.Equal(noon.Add(time.Hour)) || *got.DestinationStatus != 200 ||
			got.LastCheckedAt != nil {
			t.Errorf("%+v", got)
		}
		if diff := cmp.Diff([]string{"https://example.com/edited"}, b.due(t, 5)); diff != "" {
			t.Errorf("due (-want +got):\n%s", diff)
		}
	})
}
