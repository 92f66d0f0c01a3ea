package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// due takes destinations and returns their URLs in order.
func (b *bundle) due(t *testing.T, limit int) []string {
	t.Helper()
	taken := must.Value(b.DueChecks(t.Context(), limit, nil))(t)
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
			l := b.Make(t, creation.Input{URL: urls[i]})
			b.Set(t, l, "check_at = ?", noon.Add(-time.Duration(i)*time.Hour))
		}
		for _, want := range [][]string{urls[1:], urls[:1], {}} {
			wanttest.Equal(t, want, b.due(t, 2), "difference")
		}
		b.Now = noon.Add(CheckLease - time.Microsecond)
		if got := b.due(t, 5); len(got) > 0 {
			t.Errorf("taken by two: %s", got)
		}
		b.Now = noon.Add(CheckLease) // the node with the lease has died
		wanttest.Equal(t, urls, b.due(t, 5), "after the claim")
	})
}

func TestUpkeep_DueChecksOmitsEndedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var want []string
		for column, due := range map[string]bool{
			"deleted_at = ?": false, "disabled_at = ?": false, "purged_at = ?": false, "expires_at = ?": false,
			"starts_at = ?": true, "archived = (? IS NOT NULL)": true, "check_at = ?": true,
		} {
			l := b.Make(t, creation.Input{URL: "https://example.com/" + column[:3]})
			b.Set(t, l, column, noon)
			if due {
				want = append(want, l.OriginalURL)
			}
		}
		never := b.Make(t, creation.Input{URL: "https://example.com/never"})
		b.Set(t, never, "check_at = NULL")
		later := b.Make(t, creation.Input{URL: "https://example.com/later"})
		b.Set(t, later, "check_at = ?", noon.Add(time.Microsecond))
		slices.Sort(want)
		wanttest.Equal(t, want, b.due(t, 100), "difference")
	})
}

func TestUpkeep_Checked(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
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
		edited := b.Make(t, creation.Input{URL: "https://example.com/edited"})
		kept := b.routed(t, "a", "b", "c")
		b.Set(t, kept, "destination_status = 200")
		due := must.Value(b.DueChecks(t.Context(), 100, nil))(t)
		due = slices.DeleteFunc(due, func(d Due) bool { return d.URL == "https://example.com/b" })
		b.Set(t, edited, "check_at = ?", noon)
		must.NoError(t, b.PostponeChecks(t.Context(), due, noon.Add(time.Hour)))
		if got := b.Reload(t, kept); !got.CheckAt.Equal(noon.Add(time.Hour)) || *got.DestinationStatus != 200 ||
			got.LastCheckedAt != nil {
			t.Errorf("%+v", got)
		}
		b.Now = noon.Add(CheckLease)
		wanttest.Equal(t, []string{"https://example.com/b", "https://example.com/edited"}, b.due(t, 100), "due")
	})
}

// TestPostponeChecks_SkipsLockedRows postpones several URLs while one link and one URL of a routing
// are locked: only the others are postponed beyond CheckLease.
func TestPostponeChecks_SkipsLockedRows(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	b.Make(t, creation.Input{URL: "https://example.com/locked"})
	b.routed(t, "locked/target", "ended", "pending")
	due, err := b.DueChecks(t.Context(), 100, nil)
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
	wanttest.Equal(t, want, b.due(t, 100), "due after the lease")
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
		wanttest.Equal(t, want, b.due(t, 100), "difference")
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
		wanttest.Equal(t, want, b.states(t, l), "difference")
		want = []string{"url UNCHECKED", rule + "UNCHECKED", "routing.pendingUrl UNCHECKED",
			"routing.endedUrl UNCHECKED"}
		wanttest.Equal(t, want, b.states(t, other), "another link")
		change := linkfield.Change{ID: l.ID, Routing: optional.Set(routingTo("new", "b", "a"))}
		must.Value(b.Edit.Update(t.Context(), b.Mine, change))(t)
		want = []string{"url OK", rule + "UNCHECKED", "routing.pendingUrl OK", "routing.endedUrl BROKEN"}
		wanttest.Equal(t, want, b.states(t, l), "after an edit")
		if due := b.due(t, 100); !slices.Contains(due, "https://example.com/new") {
			t.Errorf("the new URL is not due: %s", due)
		}
	})
}

// destinationEvents returns the events of the link's URLs, oldest first.
func (b *bundle) destinationEvents(t *testing.T, l *link.Link) (events []string) {
	t.Helper()
	var rows []*audit.Event
	must.NoError(t, b.DB.NewSelect().Model(&rows).Where("target_id = ?", l.ID).Where("action LIKE 'DESTINATION_%'").
		Order("seq").
		Scan(db.AsSystem(t.Context())))
	for _, e := range rows {
		changes, err := e.FieldChanges()
		if err != nil || len(changes) != 1 || e.URL == nil || e.ActorID != "" || e.WorkspaceID != b.Mine.ID() {
			t.Fatalf("%+v: %v", e, err)
		}
		path := (*e.URL)[strings.LastIndex(*e.URL, "/"):]
		c := changes[0]
		events = append(events, fmt.Sprintf("%s %s %s %s %s", e.Action, path, c.Field, *c.Before, *c.After))
	}
	return events
}

// record records a check of the link's URL with the path.
func (b *bundle) record(t *testing.T, l *link.Link, path string, failures, status int, isDoubtful bool) {
	t.Helper()
	result := CheckResult{At: b.Now, Next: b.Now.Add(time.Hour), IsDoubtful: isDoubtful}
	if status > 0 {
		result.Status = &status
	}
	due := Due{LinkID: l.ID, URL: "https://example.com/" + path, Failures: failures}
	if err := b.RecordCheck(t.Context(), due, result); err != nil {
		t.Error(err)
	}
}

// checked is a result of a check.
type checked struct {
	failures, status int
	isDoubtful       bool
}

func TestUpkeep_RecordCheckWritesEvents(t *testing.T) {
	t.Parallel()
	const failed, recovered = "DESTINATION_FAILED /a destinationState ", "DESTINATION_RECOVERED /a destinationState "
	for name, c := range map[string]struct {
		checks []checked
		want   []string
	}{
		"one failure":    {[]checked{{1, 500, false}, {0, 200, false}}, nil},
		"from the start": {[]checked{{1, 404, false}, {2, 404, false}}, []string{failed + `"UNCHECKED" "BROKEN"`}},
		"no response": {[]checked{{0, 200, false}, {1, 0, false}, {2, 0, false}},
			[]string{failed + `"OK" "UNREACHABLE"`}},
		"failing on": {[]checked{{1, 404, false}, {2, 404, false}, {3, 0, false}},
			[]string{failed + `"UNCHECKED" "BROKEN"`}},
		"refused program": {[]checked{{0, 403, false}, {0, 429, false}, {0, 999, false}, {0, 406, false},
			{0, 451, false}}, nil},
		"gone": {[]checked{{1, 410, false}, {2, 410, false}}, []string{failed + `"UNCHECKED" "BROKEN"`}},
		"recovered, and failed again": {
			[]checked{{1, 500, false}, {2, 500, false}, {0, 401, false}, {0, 200, false}, {1, 0, false}, {2, 0, false}},
			[]string{failed + `"UNCHECKED" "BROKEN"`, recovered + `"BROKEN" "OK"`, failed + `"OK" "UNREACHABLE"`},
		},
		"doubtful": {
			[]checked{{1, 0, true}, {2, 0, true}, {3, 0, true}, {4, 0, false}, {0, 200, true}, {0, 200, false}},
			[]string{failed + `"UNCHECKED" "UNREACHABLE"`, recovered + `"UNREACHABLE" "OK"`},
		},
		"doubtful, and passed": {[]checked{{1, 0, true}, {2, 0, true}, {0, 200, false}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				own := b.Make(t, creation.Input{URL: "https://example.com/a"})
				routed := b.routed(t, "a", "a", "b") // one URL in two positions
				for _, l := range []*link.Link{own, routed} {
					for _, one := range c.checks {
						b.record(t, l, "a", one.failures, one.status, one.isDoubtful)
					}
					wanttest.Equal(t, c.want, b.destinationEvents(t, l), "difference")
					if got := b.Reload(t, l); got.Version != l.Version || !got.UpdatedAt.Equal(l.UpdatedAt) {
						t.Errorf("a check made version %d", got.Version)
					}
				}
			})
		})
	}
}

// TestUpkeep_RecordCheckConcurrently: several nodes record the same failure, and write one event.
func TestUpkeep_RecordCheckConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a"})
		for _, one := range []checked{{1, 500, false}, {2, 500, false}, {3, 0, false}, {0, 200, false}} {
			linktest.AtOnce(8, func(int) string {
				b.record(t, l, "a", one.failures, one.status, one.isDoubtful)
				return ""
			})
		}
		want := []string{
			`DESTINATION_FAILED /a destinationState "UNCHECKED" "BROKEN"`,
			`DESTINATION_RECOVERED /a destinationState "BROKEN" "OK"`,
		}
		wanttest.Equal(t, want, b.destinationEvents(t, l), "difference")
	})
}

// TestUpkeep_RecordCheckOfOtherURLs: a changed URL starts as unchecked, and deleted or disabled
// links have no events.
func TestUpkeep_RecordCheckOfOtherURLs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		fail := func(l *link.Link, path string) {
			b.record(t, l, path, 1, 500, false)
			b.record(t, l, path, 2, 500, false)
		}
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		fail(l, "a")
		must.Value(b.Edit.Update(t.Context(), b.Mine,
			linkfield.Change{ID: l.ID, URL: optional.Set("https://example.com/b")}))(t)
		if got := b.Reload(t, l).Checks(nil)[0].State(); got != link.DestinationUnchecked {
			t.Errorf("the changed URL is %s", got)
		}
		b.record(t, l, "a", 0, 200, false) // the former URL
		b.record(t, l, "b", 0, 200, false)
		want := []string{`DESTINATION_FAILED /a destinationState "UNCHECKED" "BROKEN"`}
		wanttest.Equal(t, want, b.destinationEvents(t, l), "difference")
		for _, column := range []string{"deleted_at", "disabled_at"} {
			off := b.Make(t, creation.Input{URL: "https://example.com/" + column, Strategy: new(link.Random)})
			b.Set(t, off, column+" = ?", noon)
			fail(off, column)
			if got := b.destinationEvents(t, off); len(got) > 0 {
				t.Errorf("%s: %s", column, got)
			}
		}
		deleted, err := b.Edit.Delete(t.Context(), b.Mine, l.ID)
		must.NoError(t, err)
		b.Now = deleted.DeletedAt.Add(100 * 24 * time.Hour)
		must.NoError(t, b.CleanUp(t.Context()))
		b.ExpectRows(t, 0, "audit_events", "target_id = ? AND (url IS NOT NULL OR changes IS NOT NULL)", l.ID)
		b.ExpectRows(t, 1, "audit_events", "target_id = ? AND action = ?", l.ID, audit.DestinationFailed)
	})
}
