package upkeep

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

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
				own := b.create(t, creation.Input{URL: "https://example.com/a"})
				routed := b.routed(t, "a", "a", "b") // one URL in two positions
				for _, l := range []*link.Link{own, routed} {
					for _, one := range c.checks {
						b.record(t, l, "a", one.failures, one.status, one.isDoubtful)
					}
					linktest.Equal(t, c.want, b.destinationEvents(t, l), "difference")
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
		l := b.create(t, creation.Input{URL: "https://example.com/a"})
		for _, one := range []checked{{1, 500, false}, {2, 500, false}, {3, 0, false}, {0, 200, false}} {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { b.record(t, l, "a", one.failures, one.status, one.isDoubtful) })
			}
			all.Wait()
		}
		want := []string{
			`DESTINATION_FAILED /a destinationState "UNCHECKED" "BROKEN"`,
			`DESTINATION_RECOVERED /a destinationState "BROKEN" "OK"`,
		}
		linktest.Equal(t, want, b.destinationEvents(t, l), "difference")
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
		l := b.create(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		fail(l, "a")
		must.Value(b.Edit.Update(t.Context(), b.Mine,
			link.Change{ID: l.ID, URL: optional.Set("https://example.com/b")}))(t)
		if got := b.Reload(t, l).Checks(nil)[0].State(); got != link.DestinationUnchecked {
			t.Errorf("the changed URL is %s", got)
		}
		b.record(t, l, "a", 0, 200, false) // the former URL
		b.record(t, l, "b", 0, 200, false)
		want := []string{`DESTINATION_FAILED /a destinationState "UNCHECKED" "BROKEN"`}
		linktest.Equal(t, want, b.destinationEvents(t, l), "difference")
		for _, column := range []string{"deleted_at", "disabled_at"} {
			off := b.create(t, creation.Input{URL: "https://example.com/" + column, Strategy: new(link.Random)})
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
		n, err := b.DB.NewSelect().Table("audit_events").Where("target_id = ?", l.ID).
			Where("url IS NOT NULL OR changes IS NOT NULL").Count(db.AsSystem(t.Context()))
		failures, err2 := b.DB.NewSelect().Table("audit_events").Where("target_id = ?", l.ID).
			Where("action = ?", audit.DestinationFailed).Count(db.AsSystem(t.Context()))
		if err != nil || err2 != nil || n > 0 || failures != 1 {
			t.Errorf("%d events of the purged link have values: %v", n, err)
		}
	})
}
