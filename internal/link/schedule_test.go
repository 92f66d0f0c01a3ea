package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
)

// schedule schedules a change of a link.
func (b *bundle) schedule(t *testing.T, l *link.Link, in time.Duration, c link.Change) *link.ScheduledChange {
	t.Helper()
	scheduled := must.Value(b.Schedule(t.Context(), b.mine, l.ID, b.now.Add(in), c))(t)
	return scheduled
}

// location returns where the short URL redirects, as this node resolves it.
func (b *bundle) location(t *testing.T, l *link.Link) string {
	t.Helper()
	target := must.Value(b.Resolver.Resolve(t.Context(), resolve.Address{Code: l.Code}, b.now, nil))(t)
	return routing.Decide(&target.Program, &routing.Request{Now: b.now}).Location
}

func (b *bundle) applyScheduled(t *testing.T) {
	t.Helper()
	must.NoError(t, b.ApplyScheduledChanges(t.Context()))
}

// TestSchedule_TakesEffectAtItsInstant: redirects, reads and lists of versions change at the instant,
// before and after the job has run, and the version begins at the instant.
func TestSchedule_TakesEffectAtItsInstant(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random), Tags: []string{"old"}})
		at := b.now.Add(time.Hour)
		b.schedule(t, l, time.Hour, link.Change{
			URL: to("https://example.com/b"), Title: to(new("later")), Tags: to([]string{"new"}),
		})
		for _, step := range []struct {
			name, url, title string
			now              time.Time
			job              bool
			version          int
		}{
			{"before", "https://example.com/a", "", at.Add(-time.Microsecond), true, 1},
			{"at the instant", "https://example.com/b", "later", at, false, 1},
			{"once it is written", "https://example.com/b", "later", at.Add(3 * time.Second), true, 2},
			{"written once", "https://example.com/b", "later", at.Add(time.Minute), true, 2},
		} {
			b.now = step.now
			if step.job {
				b.applyScheduled(t)
			}
			got := must.Value(b.Get(t.Context(), b.mine, l.ID))(t)
			if got.OriginalURL != step.url || optional.Value(got.Title) != step.title || got.Version != step.version {
				t.Errorf("%s: %s %v version %d", step.name, got.OriginalURL, got.Title, got.Version)
			}
			if got := b.location(t, l); got != step.url {
				t.Errorf("%s: redirects to %s", step.name, got)
			}
			asOf := must.Value(b.AsOf(t.Context(), got, b.now))(t)
			if isAfter := step.url != "https://example.com/a"; asOf.URL != step.url || isAfter != asOf.From.Equal(at) ||
				isAfter != (asOf.Number == 2) || isAfter != cmp.Equal(asOf.Tags, []string{"new"}) {
				t.Errorf("%s: version %+v", step.name, asOf)
			}
		}
		all := b.versions(t, l)
		if v := all[0]; v.Cause != link.CauseScheduled || v.ActorID != b.mine.ActorID() || !v.From.Equal(at) || !all[1].To.Equal(at) {
			t.Errorf("%+v", v)
		}
		if diff := cmp.Diff([]string{"new"}, b.tagsOf(t, l)); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if left := b.pendingRows(t); left != 0 {
			t.Errorf("%d rows left", left)
		}
		if got := b.differences(t); len(got) > 0 {
			t.Errorf("differences: %v", got)
		}
	})
}

// TestStore_AsOfReturnsIntervals: versions end where their successors begin, also before these are written.
func TestStore_AsOfReturnsIntervals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/1", Strategy: new(link.Random)})
		starts := []time.Time{b.now, b.now.Add(time.Hour), b.now.Add(2 * time.Hour), b.now.Add(3 * time.Hour)}
		for i, at := range starts[1:] {
			b.schedule(t, l, at.Sub(b.now), link.Change{URL: to(fmt.Sprint("https://example.com/", i+2))})
		}
		b.now = b.now.Add(4 * time.Hour)
		for _, isWritten := range []bool{false, true} {
			for i, at := range starts {
				v := must.Value(b.AsOf(t.Context(), b.mustGet(t, l), at.Add(time.Minute)))(t)
				var end *time.Time
				if i+1 < len(starts) {
					end = &starts[i+1]
				}
				if v.Number != i+1 || !v.From.Equal(at) || !link.SameInstant(v.To, end) {
					t.Errorf("written: %t: version %d from %s to %v, want %d from %s to %v", isWritten, v.Number, v.From, v.To,
						i+1, at, end)
				}
			}
			b.applyScheduled(t)
		}
	})
}

// pendingRows counts the rows of scheduled changes.
func (b *bundle) pendingRows(t *testing.T) int {
	t.Helper()
	n := must.Value(b.DB.NewSelect().Model((*link.ScheduledChange)(nil)).Count(db.AsSystem(t.Context())))(t)
	return int(n)
}

// TestSchedule_RefusesWhatCannotHold: bounds, immutable and refused URLs, and too many changes.
func TestSchedule_RefusesWhatCannotHold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		computed, _ := b.create(t, link.New{URL: "https://example.com/computed"})
		b.Destinations.Blocklist = blockedHosts{"evil.example": true}
		inURL := []string{"change", "url"}
		title := link.Change{Title: to(new("later"))}
		for name, c := range map[string]struct {
			link   string
			in     time.Duration
			change link.Change
			want   errs.Kind
			field  []string
		}{
			"too soon":      {l.ID, 5*time.Second - 1, title, errs.InvalidInput, []string{"at"}},
			"too far ahead": {l.ID, 3 * 365 * 24 * time.Hour, title, errs.InvalidInput, []string{"at"}},
			"nothing":       {l.ID, time.Hour, link.Change{}, errs.InvalidInput, []string{"change"}},
			"no link":       {"lnk_x", time.Hour, title, errs.NotFound, []string{"linkId"}},
			"no URL":        {l.ID, time.Hour, link.Change{URL: to("x")}, errs.InvalidURL, inURL},
			"blocked URL":   {l.ID, time.Hour, link.Change{URL: to("https://evil.example/")}, errs.UnsafeURL, inURL},
			"own URL":       {l.ID, time.Hour, link.Change{URL: to("http://sho.rt/x")}, errs.UnsafeURL, inURL},
			"status": {l.ID, time.Hour, link.Change{RedirectStatus: to(200)}, errs.InvalidInput,
				[]string{"change", "redirectStatus"}},
			"a computed code": {computed.ID, time.Hour, link.Change{URL: to("https://example.com/b")}, errs.Immutable,
				inURL},
			"failing test": {l.ID, time.Hour, link.Change{Routing: to(&routing.Change{Tests: optional.Set([]*routing.Test{{
				Visit: &routing.Sample{}, Location: new("https://example.com/b")}})})}, errs.InvalidInput,
				[]string{"change", "routing", "tests", "0"}},
			"blocked target": {l.ID, time.Hour, link.Change{Routing: to(&routing.Change{EndedURL: optional.Set(
				new("https://evil.example/"))})}, errs.UnsafeURL, []string{"change", "routing", "endedUrl"}},
		} {
			_, err := b.Schedule(t.Context(), b.mine, c.link, b.now.Add(c.in), c.change)
			if !errs.Is(err, c.want) || !cmp.Equal(errs.From(err).Field, c.field) {
				t.Errorf("%s: %v at %v", name, err, errs.From(err).Field)
			}
		}
		if _, err := b.Schedule(t.Context(), b.foreign, l.ID, b.now.Add(time.Hour), title); !errs.Is(err, errs.NotFound) {
			t.Errorf("of a foreign link: %v", err)
		}
		for i := range link.MaxScheduled {
			b.schedule(t, l, link.MinLead+time.Duration(i%3)*time.Second, title)
		}
		if _, err := b.Schedule(t.Context(), b.mine, l.ID, b.now.Add(time.Hour), title); !errs.Is(err, errs.QuotaExceeded) {
			t.Errorf("one too many: %v", err)
		}
	})
}

// redirectsTo is a change that adds a test of the routing.
func redirectsTo(url string) optional.Edit[*routing.Change] {
	return to(&routing.Change{Tests: optional.Set([]*routing.Test{{Visit: &routing.Sample{}, Location: &url}})})
}

// TestSchedule_LaterEditsRespectIt: an edit that breaks a state after a pending change is refused with its
// id, and so is a cancellation on which another change depends.
func TestSchedule_LaterEditsRespectIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		toB := b.schedule(t, l, time.Hour, link.Change{URL: to("https://example.com/b")})
		_, err := b.Update(t.Context(), b.mine, link.Change{ID: l.ID, Routing: redirectsTo("https://example.com/a")})
		if !errs.Is(err, errs.InvalidInput) || !contains(err, toB.ID) {
			t.Errorf("a test that fails afterwards: %v", err)
		}
		tested := b.schedule(t, l, 2*time.Hour, link.Change{Routing: redirectsTo("https://example.com/b")})
		if _, err := b.Cancel(t.Context(), b.mine, toB.ID); !errs.Is(err, errs.InvalidInput) || !contains(err, tested.ID) {
			t.Errorf("canceling what another needs: %v", err)
		}
		if _, err := b.Schedule(t.Context(), b.mine, l.ID, b.now.Add(90*time.Minute),
			link.Change{URL: to("https://example.com/c")}); !errs.Is(err, errs.InvalidInput) || !contains(err, tested.ID) {
			t.Errorf("scheduling what breaks another: %v", err)
		}
		b.update(t, l, link.Change{Title: to(new("kept"))})
		b.Destinations.Blocklist = blockedHosts{"example.com": true}
		if _, err := b.Delete(t.Context(), b.mine, l.ID); err != nil {
			t.Errorf("deleting: %v", err)
		}
		b.now = b.now.Add(3 * time.Hour)
		b.applyScheduled(t)
		if got := b.get(t, l); got.OriginalURL != "https://example.com/b" || optional.Value(got.Title) != "kept" ||
			got.DeletedAt == nil || len(got.Routing.Tests) != 1 {
			t.Errorf("afterwards: %+v", got)
		}
		if got := b.differences(t); len(got) > 0 {
			t.Errorf("differences: %v", got)
		}
	})
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// TestSchedule_Cancel removes the change everywhere.
func TestSchedule_Cancel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		c := b.schedule(t, l, time.Hour, link.Change{URL: to("https://evil.example/")})
		due := b.schedule(t, l, 30*time.Minute, link.Change{Title: to(new("due"))})
		if spaces, err := b.Changes().WorkspaceOf(t.Context(), c.ID); err != nil || spaces != b.mine.ID() {
			t.Errorf("%s: %v", spaces, err)
		}
		if _, err := b.Cancel(t.Context(), b.foreign, c.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("by a foreign member: %v", err)
		}
		if got, err := b.Cancel(t.Context(), b.mine, c.ID); err != nil || !got.NextChangeAt.Equal(due.DueAt) {
			t.Errorf("%+v: %v", got, err)
		}
		if _, err := b.Cancel(t.Context(), b.mine, c.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("again: %v", err)
		}
		b.now = due.DueAt
		if _, err := b.Cancel(t.Context(), b.mine, due.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("once it took effect: %v", err)
		}
		b.now = c.DueAt
		b.applyScheduled(t)
		if got := b.get(t, l); got.OriginalURL != "https://example.com/a" || got.NextChangeAt != nil ||
			b.location(t, l) != "https://example.com/a" {
			t.Errorf("%+v", got)
		}
		var urls []string
		err := d.NewSelect().Table("link_urls").Column("url").Where("link_id = ?", l.ID).Scan(db.AsSystem(t.Context()), &urls)
		if err != nil || len(urls) > 0 {
			t.Errorf("URLs left: %v: %v", urls, err)
		}
		var actions []string
		err = d.NewSelect().Table("audit_events").ColumnExpr("DISTINCT action").Where("target_id = ?", l.ID).
			Where("version IS NULL").Order("action").Scan(db.AsSystem(t.Context()), &actions)
		want := []string{string(audit.LinkChangeCanceled), string(audit.LinkChangeScheduled)}
		if diff := cmp.Diff(want, actions); err != nil || diff != "" {
			t.Errorf("audit log: %v\n%s", err, diff)
		}
	})
}

// TestSchedule_EditWritesDueChangesFirst: the edit sees the state after them.
func TestSchedule_EditWritesDueChangesFirst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		other, _ := b.create(t, link.New{URL: "https://example.com/other", Strategy: new(link.Random)})
		for i, one := range []*link.Link{l, other} {
			b.schedule(t, one, time.Hour, link.Change{Title: to(new("first")), URL: to(fmt.Sprint("https://example.com/b", i))})
			b.schedule(t, one, time.Hour, link.Change{Title: to(new("second"))})
			b.schedule(t, one, 2*time.Hour, link.Change{Note: to(new("third"))})
		}
		b.now = b.now.Add(3 * time.Hour)
		results := must.Value(b.UpdateMany(t.Context(), b.mine, []link.Change{
			{ID: l.ID, RedirectStatus: to(301)}, {ID: other.ID, Title: to(new("second"))},
		}, link.SkipFailed))(t)
		for i, want := range []int{4, 3} {
			if got := results[i].Link; results[i].Err != nil || optional.Value(got.Title) != "second" || got.Version != want ||
				got.OriginalURL != fmt.Sprint("https://example.com/b", i) {
				t.Errorf("%d: %+v: %v", i, got, results[i].Err)
			}
		}
		var causes []link.Cause
		var from []time.Duration
		for _, v := range b.versions(t, l) {
			causes, from = append(causes, v.Cause), append(from, v.From.Sub(noon).Truncate(time.Millisecond))
		}
		if diff := cmp.Diff([]link.Cause{link.CauseUpdated, link.CauseScheduled, link.CauseScheduled, link.CauseCreated}, causes); diff != "" {
			t.Errorf("causes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour, 0}, from); diff != "" {
			t.Errorf("from (-want +got):\n%s", diff)
		}
		if got := b.differences(t); len(got) > 0 || b.pendingRows(t) > 0 {
			t.Errorf("differences: %v, %d pending", got, b.pendingRows(t))
		}
	})
}

// TestSchedule_VersionBeginsAfterItsPredecessor, also if a node with a clock ahead has changed the link.
func TestSchedule_VersionBeginsAfterItsPredecessor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		b.now = noon.Add(time.Hour)
		ahead := b.update(t, l, link.Change{Title: to(new("ahead"))})
		b.now = noon
		c := b.schedule(t, l, time.Minute, link.Change{Title: to(new("behind"))})
		b.now = c.DueAt
		asOf, err := b.AsOf(t.Context(), b.mustGet(t, l), b.now)
		if err != nil || asOf.Number != 1 {
			t.Errorf("%+v: %v", asOf, err)
		}
		b.applyScheduled(t)
		if got := b.versions(t, l)[0]; !got.From.Equal(ahead.UpdatedAt.Add(time.Microsecond)) || got.Number != 3 {
			t.Errorf("begins at %s", got.From)
		}
		if got := b.differences(t); len(got) > 0 {
			t.Errorf("differences: %v", got)
		}
	})
}

// mustGet returns a link as the API does.
func (b *bundle) mustGet(t *testing.T, l *link.Link) *link.Link {
	t.Helper()
	got := must.Value(b.Get(t.Context(), b.mine, l.ID))(t)
	return got
}

// TestSchedule_ChangeWithoutEffectHasNoVersion.
func TestSchedule_ChangeWithoutEffectHasNoVersion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		b.schedule(t, l, time.Hour, link.Change{Title: to(new("same"))})
		b.update(t, l, link.Change{Title: to(new("same"))})
		b.now = b.now.Add(time.Hour)
		b.applyScheduled(t)
		if got := b.get(t, l); got.Version != 2 || got.NextChangeAt != nil {
			t.Errorf("%+v", got)
		}
	})
}

// TestSchedule_CapsTargetsFromItsInstant: the maximum of a new target exists before the change is written.
func TestSchedule_CapsTargetsFromItsInstant(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		capped := &routing.Target{URL: new("https://example.com/capped"), MaxClicks: new(int64(5))}
		rules := []*routing.Rule{{Targets: []*routing.Target{capped}}}
		c := b.schedule(t, l, time.Hour, link.Change{Routing: to(&routing.Change{Rules: optional.Set(rules)})})
		b.schedule(t, l, 2*time.Hour, link.Change{Title: to(new("later"))})
		target := c.After().Routing.Rules[0].Targets[0].ID
		if got := maximumOf(t, d, target); got == nil || *got != 5 {
			t.Errorf("before: %v", got)
		}
		// The row gets the target too, and loses it: the maximum stays for the pending change.
		b.update(t, l, link.Change{Routing: to(&routing.Change{Rules: optional.Set(rules)})})
		own := b.get(t, l).Routing.Rules
		b.schedule(t, l, time.Minute, link.Change{Routing: to(&routing.Change{Rules: optional.Set(own)})})
		b.update(t, l, link.Change{Routing: to[*routing.Change](nil)})
		last := b.pending(t, l)[0].After().Routing.Rules[0].Targets[0].ID
		if got := maximumOf(t, d, last); got == nil || *got != 5 {
			t.Errorf("of a target that only a pending change has: %v", got)
		}
		b.now = c.DueAt
		b.applyScheduled(t)
		got := b.get(t, l)
		if len(got.Routing.Rules) != 1 || got.Routing.Rules[0].Targets[0].ID != target {
			t.Errorf("%+v", got.Routing)
		}
		if got := maximumOf(t, d, target); got == nil || *got != 5 {
			t.Errorf("after: %v", got)
		}
	})
}

// maximumOf returns the stored maximum of a target.
func maximumOf(t *testing.T, d *db.DB, target string) (n *int64) {
	t.Helper()
	must.NoError(t, d.NewSelect().Table("grants").Column("max_clicks").Where("subject_id = ?", target).
		Scan(db.AsSystem(t.Context()), &n))
	return n
}

// pending returns the pending changes of a link.
func (b *bundle) pending(t *testing.T, l *link.Link) []*link.ScheduledChange {
	t.Helper()
	changes := must.Value(b.Scheduled(t.Context(), b.mine, l.ID))(t)
	return b.mustGet(t, l).Pending(changes[l.ID], b.now)
}

// TestSchedule_SurvivesDeletion: a deleted link keeps its changes, which take effect; purging removes them.
func TestSchedule_SurvivesDeletion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/computed"})
		b.schedule(t, l, time.Hour, link.Change{Title: to(new("due"))})
		b.schedule(t, l, 365*24*time.Hour, link.Change{Title: to(new("far")), RedirectStatus: to(301)})
		must.Value(b.Delete(t.Context(), b.mine, l.ID))(t)
		b.now = b.now.Add(time.Hour)
		b.applyScheduled(t)
		if got := b.get(t, l); optional.Value(got.Title) != "due" || got.DeletedAt == nil || got.NextChangeAt == nil {
			t.Errorf("%+v", got)
		}
		must.Value(b.Restore(t.Context(), b.mine, l.ID))(t)
		must.Value(b.Delete(t.Context(), b.mine, l.ID))(t)
		b.now = b.now.Add(b.Tombstones)
		b.cleanUp(t)
		var purged link.Link
		err := d.NewSelect().Model(&purged).Where("id = ?", l.ID).Scan(db.AsSystem(t.Context()))
		if err != nil || purged.PurgedAt == nil || purged.NextChangeAt != nil || b.pendingRows(t) != 0 {
			t.Errorf("%+v, %d left: %v", purged, b.pendingRows(t), err)
		}
	})
}

// TestSchedule_IsWrittenOnce though two nodes and an edit do it at the same time.
func TestSchedule_IsWrittenOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var links []*link.Link
		for i := range 20 {
			l, _ := b.create(t, link.New{URL: fmt.Sprint("https://example.com/", i), Strategy: new(link.Random)})
			b.schedule(t, l, time.Hour, link.Change{URL: to(fmt.Sprint("https://example.com/later/", i))})
			links = append(links, l)
		}
		b.now = b.now.Add(time.Hour)
		other := b.node(t, d)
		other.Now = b.Now
		done := make(chan error, 3)
		go func() { done <- b.ApplyScheduledChanges(t.Context()) }()
		go func() { done <- other.ApplyScheduledChanges(t.Context()) }()
		go func() {
			var changes []link.Change
			for _, l := range links {
				changes = append(changes, link.Change{ID: l.ID, Title: to(new("edited"))})
			}
			_, err := b.UpdateMany(t.Context(), b.mine, changes, link.SkipFailed)
			done <- err
		}()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.applyScheduled(t)
		for _, l := range links {
			if got := b.get(t, l); got.Version != 3 || optional.Value(got.Title) != "edited" {
				t.Errorf("%+v", got)
			}
		}
		if got := b.differences(t); len(got) > 0 || b.pendingRows(t) > 0 {
			t.Errorf("differences: %v, %d pending", got, b.pendingRows(t))
		}
	})
}

// TestSchedule_WorksWithoutDatabase: a node switches at each instant from memory.
func TestSchedule_WorksWithoutDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	l, _ := b.create(t, link.New{URL: "https://example.com/0", Strategy: new(link.Random)})
	for i := 1; i <= 3; i++ {
		b.schedule(t, l, time.Duration(i)*time.Minute, link.Change{URL: to(fmt.Sprint("https://example.com/", i))})
	}
	b.schedule(t, l, 3*time.Minute, link.Change{URL: to("https://example.com/last")})
	must.NoError(t, b.Resolver.CatchUp(t.Context()))
	start := b.now
	_ = b.location(t, l)
	must.NoError(t, b.DB.Close())
	for after, want := range map[time.Duration]string{
		0: "0", time.Minute - 1: "0", time.Minute: "1", 2*time.Minute - time.Microsecond: "1", 2 * time.Minute: "2",
		3*time.Minute - 1: "2", 3 * time.Minute: "last", 4 * time.Minute: "last",
	} {
		b.now = start.Add(after)
		if got := b.location(t, l); got != "https://example.com/"+want {
			t.Errorf("after %s: %s", after, got)
		}
	}
}

// TestSchedule_ChecksLeadOnceLocked: the wait for the lock may take longer than the lead.
func TestSchedule_ChecksLeadOnceLocked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		reads := 0
		b.Store.Now = func() time.Time {
			if reads++; reads == 1 {
				return noon
			}
			return noon.Add(time.Second) // the first reading was before the lock
		}
		_, err := b.Schedule(t.Context(), b.mine, l.ID, noon.Add(link.MinLead), link.Change{Title: to(new("late"))})
		if !errs.Is(err, errs.InvalidInput) || b.pendingRows(t) != 0 {
			t.Errorf("%d pending changes: %v", b.pendingRows(t), err)
		}
	})
}

// TestStore_CreateReturnsDueState: createLink finds a link by its URL after a due change, and returns that state.
func TestStore_CreateReturnsDueState(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		const before, after = "https://example.com/a", "https://example.com/b"
		l, _ := b.create(t, link.New{URL: before, CustomCode: new("promo")})
		same, _ := b.create(t, link.New{URL: before})
		b.schedule(t, l, time.Hour, link.Change{URL: to(after)})
		b.schedule(t, same, time.Hour, link.Change{Title: to(new("due"))})
		b.now = b.now.Add(2 * time.Hour)
		found, isNew := b.create(t, link.New{URL: after, CustomCode: new("promo")})
		if isNew || found.ID != l.ID || found.OriginalURL != after {
			t.Errorf("by code: new %t, %+v", isNew, found)
		}
		b.refuse(t, link.New{URL: before, CustomCode: new("promo")}, errs.CodeTaken)
		if found, _ := b.create(t, link.New{URL: before}); found.ID != same.ID || optional.Value(found.Title) != "due" {
			t.Errorf("by URL: %+v", found)
		}
	})
}

// TestStore_AsOfIgnoresDueChangesWithoutEffect: they write no version.
func TestStore_AsOfIgnoresDueChangesWithoutEffect(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/1", Strategy: new(link.Random), Tags: []string{"a"}})
		same := link.Change{URL: to("https://example.com/1"), Tags: to([]string{"a"})}
		b.schedule(t, l, time.Hour, same)
		b.schedule(t, l, 2*time.Hour, link.Change{Title: to(new("changed"))})
		b.schedule(t, l, 3*time.Hour, same)
		b.now = b.now.Add(4 * time.Hour)
		begins := b.now.Add(-2 * time.Hour)
		for _, isWritten := range []bool{false, true} {
			for hour, want := range []int{1, 1, 2, 2, 2} {
				v := must.Value(b.AsOf(t.Context(), b.mustGet(t, l), noon.Add(time.Duration(hour)*time.Hour)))(t)
				isRight := v.Number == want
				if want == 1 {
					isRight = isRight && link.SameInstant(v.To, &begins)
				} else {
					isRight = isRight && v.From.Equal(begins) && v.To == nil
				}
				if !isRight {
					t.Errorf("written: %t, after %d hours: version %d from %s to %v", isWritten, hour, v.Number, v.From, v.To)
				}
			}
			b.applyScheduled(t)
		}
	})
}

// TestStore_ExplainAppliesPendingChanges that are due at the time of the visit, on top of the tried routing.
func TestStore_ExplainAppliesPendingChanges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
		target := "https://example.com/tried"
		tried := &routing.Change{Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: &target}}}})}
		b.schedule(t, l, time.Hour, link.Change{URL: to("https://example.com/b")})
		b.schedule(t, l, 2*time.Hour, link.Change{Routing: to(&routing.Change{
			Rules: optional.Set([]*routing.Rule{}), EndedURL: optional.Set(new("https://example.com/ended"))})})
		for _, c := range []struct {
			in   time.Duration
			try  *routing.Change
			want string
		}{
			{0, nil, "https://example.com/a"}, {time.Hour - 1, nil, "https://example.com/a"},
			{time.Hour, nil, "https://example.com/b"}, {time.Hour, tried, target},
			{2 * time.Hour, tried, "https://example.com/b"},
		} {
			visit := &routing.Sample{At: new(b.now.Add(c.in))}
			e := must.Value(b.Explain(t.Context(), link.ExplainRequest{Link: b.mustGet(t, l), Visit: visit, Change: c.try}))(t)
			if got := optional.Value(e.Location); got != c.want {
				t.Errorf("after %s, trying a routing: %t: %s, want %s", c.in, c.try != nil, got, c.want)
			}
		}
	})
}

// TestStore_ValidatesStatesWithinBounds: only changed routings are validated, and not for a caller that has gone.
func TestStore_ValidatesStatesWithinBounds(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	l, _ := b.create(t, link.New{URL: "https://example.com/a", Strategy: new(link.Random)})
	ended := &routing.Change{EndedURL: optional.Set(new("https://example.com/ended"))}
	b.schedule(t, l, time.Hour, link.Change{Routing: to(ended)})
	const corrupt = "UPDATE scheduled_changes SET patch = replace(patch, 'https://example.com/ended', 'no URL')"
	if _, err := b.DB.ExecContext(db.AsSystem(t.Context()), corrupt); err != nil { // refused by today's rules
		t.Fatal(err)
	}
	b.update(t, l, link.Change{URL: to("https://example.com/b")})
	other := &routing.Change{ForwardPath: optional.Set(new(true))}
	_, err := b.Update(t.Context(), b.mine, link.Change{ID: l.ID, Routing: to(other)})
	if !errs.Is(err, errs.InvalidURL) && !errs.Is(err, errs.InvalidInput) {
		t.Errorf("another routing: %v", err)
	}
	loaded := b.get(t, l)
	if err := link.LoadPendingChanges(db.AsSystem(t.Context()), b.DB, loaded); err != nil || len(loaded.PendingChanges()) != 1 {
		t.Fatalf("%d pending: %v", len(loaded.PendingChanges()), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ValidStates(ctx, loaded); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	e := link.Edits{IDs: []string{l.ID}, Mutate: func(int, *link.Link) error { return nil }}
	if err := b.MutateOnce(ctx, &e, map[string]*link.Link{l.ID: loaded}); !errors.Is(err, context.Canceled) {
		t.Errorf("edits after the end of the context: %v", err)
	}
}
