package upkeep

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// recordTransitions runs the job.
func (b *bundle) recordTransitions(t *testing.T) {
	t.Helper()
	must.NoError(t, b.RecordTransitions(t.Context()))
}

// transitionsOf returns the transitions in the event log, each as its action and time after noon.
func (b *bundle) transitionsOf(t *testing.T, l *link.Link) (all []string) {
	t.Helper()
	var events []*audit.Event
	must.NoError(t, b.DB.NewSelect().Model(&events).Where("target_id = ?", l.ID).
		Where("action IN ('LINK_STARTED', 'LINK_EXPIRED', 'LINK_EXHAUSTED')").Order("seq").
		Scan(db.AsSystem(t.Context())))
	for _, e := range events {
		if e.ActorID != "" || e.Version != nil || e.Changes != nil {
			t.Errorf("%s has actor %q, version %v, changes %v", e.Action, e.ActorID, e.Version, e.Changes)
		}
		all = append(all, fmt.Sprint(strings.TrimPrefix(string(e.Action), "LINK_"), " ", e.At().Sub(noon)))
	}
	return all
}

func (b *bundle) expectTransitions(t *testing.T, when string, l *link.Link, want ...string) {
	t.Helper()
	b.recordTransitions(t)
	linktest.Equal(t, want, b.transitionsOf(t, l), "%s", when)
}

// TestTransitions_AreRecordedOnce although several nodes run the job at once and again, in more
// than one batch. The event takes effect at the planned instant, and is in the log in the order of
// commits.
func TestTransitions_AreRecordedOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const many = batchSize + 20
		starts, expires := noon.Add(time.Minute), noon.Add(2*time.Minute)
		in := creationtest.URLs(0, many)
		for i := range in {
			in[i].StartsAt, in[i].ExpiresAt = &starts, &expires
		}
		links := b.createMany(t, in...)
		b.expectTransitions(t, "before", links[0].Link)
		b.Now = expires.Add(time.Hour)
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				if err := b.RecordTransitions(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		b.recordTransitions(t)
		counts := map[string]int{}
		var feed []string
		for _, e := range b.events(t) {
			counts[fmt.Sprint(e.Action, " ", e.At().Sub(noon))]++
			if e.TargetID == links[0].Link.ID {
				feed = append(feed, string(e.Action))
			}
		}
		want := map[string]int{"LINK_CREATED 0s": many, "LINK_STARTED 1m0s": many, "LINK_EXPIRED 2m0s": many}
		linktest.Equal(t, want, counts, "difference")
		if len(feed) != 3 || feed[0] != "LINK_CREATED" {
			t.Errorf("the feed has %v", feed)
		}
		if got := b.Reload(t, links[0].Link); got.EndedAt == nil || !got.EndedAt.Equal(expires) || got.Version != 1 {
			t.Errorf("ended at %v, version %d", got.EndedAt, got.Version)
		}
	})
}

// TestTransitions_EditsClearMarks when they move a transition into the future, not otherwise.
func TestTransitions_EditsClearMarks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		at := func(minutes int) *time.Time { return new(noon.Add(time.Duration(minutes) * time.Minute)) }
		l := b.create(t, creation.Input{URL: "https://example.com/", StartsAt: at(1), ExpiresAt: at(10)})
		b.Now = *at(2)
		b.expectTransitions(t, "started", l, "STARTED 1m0s")
		b.Change(t, l, link.Change{Title: optional.Set(new("other"))})
		b.Change(t, l, link.Change{StartsAt: optional.Set(at(0))})
		b.expectTransitions(t, "other edits", l, "STARTED 1m0s")
		b.Change(t, l, link.Change{StartsAt: optional.Set(at(5))})
		b.expectTransitions(t, "moved into the future", l, "STARTED 1m0s")
		b.Now = *at(11)
		b.expectTransitions(t, "again", l, "STARTED 1m0s", "STARTED 5m0s", "EXPIRED 10m0s")
		b.Change(t, l, link.Change{ExpiresAt: optional.Set(at(20))})
		b.Now = *at(21)
		b.expectTransitions(t, "extended", l, "STARTED 1m0s", "STARTED 5m0s", "EXPIRED 10m0s", "EXPIRED 20m0s")
		must.Value(b.Edit.Revert(t.Context(), b.Mine, l.ID, 1, nil))(t)
		b.expectTransitions(t, "reverted", l, "STARTED 1m0s", "STARTED 5m0s", "EXPIRED 10m0s", "EXPIRED 20m0s")
	})
}

// TestTransitions_NotOfDeletedLinks, of disabled ones, or of links without an account. A passed
// instant is recorded once the link is restored, with its own time.
func TestTransitions_NotOfDeletedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		starts, expires := noon.Add(time.Minute), noon.Add(10*time.Hour)
		in := creation.Input{URL: "https://example.com/", Strategy: new(link.Random), StartsAt: &starts,
			ExpiresAt: &expires}
		deleted := b.create(t, in)
		disabled := b.create(t, in)
		anonymous := b.anonymous(t, "https://example.com/anonymous")
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		b.Set(t, disabled, "disabled_at = ?", noon)
		b.Now = expires.Add(time.Hour)
		for _, l := range []*link.Link{deleted, disabled, anonymous} {
			b.expectTransitions(t, "not", l)
		}
		ended, err := b.DB.NewSelect().Model((*link.Link)(nil)).Where("id = ?", anonymous.ID).
			Where("ended_at = expires_at").
			Count(db.AsSystem(t.Context()))
		if err != nil || ended != 1 {
			t.Errorf("the link without an account has not ended: %v", err)
		}
		must.Value(b.Edit.Restore(t.Context(), b.Mine, deleted.ID))(t)
		restored := b.Reload(t, deleted).EndedAt
		b.Set(t, disabled, "disabled_at = NULL")
		for range 2 {
			for _, l := range []*link.Link{deleted, disabled} {
				b.expectTransitions(t, "restored", l, "STARTED 1m0s", "EXPIRED 10h0m0s")
			}
			must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
			must.Value(b.Edit.Restore(t.Context(), b.Mine, deleted.ID))(t)
		}
		if got := b.Reload(t, deleted).EndedAt; restored == nil || got == nil || got.Before(*restored) {
			t.Errorf("the tombstone began at %v, want %v", got, restored)
		}
	})
}

// TestTransitions_ExhaustionCountsRecordedClicks: granted redirects alone do not exhaust a link.
// After its maximum is raised, it can be exhausted again.
func TestTransitions_ExhaustionCountsRecordedClicks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.create(t, creation.Input{URL: "https://example.com/", MaxClicks: new(int64(2))})
		plain := b.create(t, creation.Input{URL: "https://example.com/plain"})
		b.grant(t, l)
		b.Follow(t, l, 1)
		b.Follow(t, plain, 5)
		b.expectTransitions(t, "one of two clicks", l)
		b.grant(t, l)
		b.expectTransitions(t, "granted, but not recorded", l)
		b.Follow(t, l, 1)
		b.Tick()
		for range 2 {
			b.expectTransitions(t, "two of two clicks", l, "EXHAUSTED 1m0s")
		}
		b.Change(t, l, link.Change{Title: optional.Set(new("other"))})
		b.expectTransitions(t, "another edit", l, "EXHAUSTED 1m0s")
		b.Change(t, l, link.Change{MaxClicks: optional.Set(new(int64(3)))})
		b.expectTransitions(t, "a raised maximum", l, "EXHAUSTED 1m0s")
		b.grant(t, l)
		b.Follow(t, l, 1)
		b.Tick()
		b.expectTransitions(t, "reached again", l, "EXHAUSTED 1m0s", "EXHAUSTED 2m0s")
		b.Change(t, l, link.Change{MaxClicks: optional.Set[*int64](nil)})
		b.Change(t, l, link.Change{MaxClicks: optional.Set(new(int64(1)))})
		b.Tick()
		b.expectTransitions(t, "a new maximum", l, "EXHAUSTED 1m0s", "EXHAUSTED 2m0s", "EXHAUSTED 3m0s")
		b.expectTransitions(t, "a link without a maximum", plain)
	})
}

// TestTransitions_RecordPastStarts: startsAt has come, although no visitor has waited for it. It is
// recorded once.
func TestTransitions_RecordPastStarts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		past, earlier := noon.Add(-time.Hour), noon.Add(-2*time.Hour)
		created := b.create(t, creation.Input{URL: "https://example.com/created", StartsAt: &past})
		edited := b.create(t, creation.Input{URL: "https://example.com/edited"})
		b.Change(t, edited, link.Change{StartsAt: optional.Set(&past)})
		for range 2 {
			b.expectTransitions(t, "created", created, "STARTED -1h0m0s")
			b.expectTransitions(t, "edited", edited, "STARTED -1h0m0s")
			b.Change(t, edited, link.Change{StartsAt: optional.Set(&earlier)})
		}
	})
}

// TestTransitions_ReadTheirIndexes: links without a transition to record cost nothing.
func TestTransitions_ReadTheirIndexes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.createMany(t, creationtest.URLs(0, link.MaxBatch)...)
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
			"INSERT INTO grants (subject_id, link_id, workspace_id, max_clicks) "+
				"SELECT id, id, workspace_id, 5 FROM links"))(t)
		dbtest.Analyze(t, b.DB)
		plans := strings.Join(dbtest.Plans(t, b.DB, func(watched *db.DB) {
			for _, one := range b.transitions(noon) {
				var ids []string
				if err := one.batch(watched).Scan(db.AsSystem(t.Context()), &ids); err != nil {
					t.Error(err)
				}
			}
		}), "\n--\n")
		for _, index := range []string{"links_to_start", "links_to_expire", "grants_to_exhaust"} {
			if !regexp.MustCompile(`(Index.* using|USING .*INDEX) ` + index).MatchString(plans) {
				t.Errorf("%s is not read:\n%s", index, plans)
			}
		}
	})
}
