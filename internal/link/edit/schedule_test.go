package edit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

const (
	// minLead is how far ahead a change must be, and maxPending how many changes of a link can be
	// pending.
	minLead    = 5 * time.Second
	maxPending = 20
)

// TestSchedule_TakesEffectAtItsInstant: redirects, reads and lists of versions change at the
// instant, before and after the job has run, and the version begins at the instant.
func TestSchedule_TakesEffectAtItsInstant(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random),
			Fields: linkfield.Change{Tags: optional.Set([]string{"old"})}})
		at := b.Now.Add(time.Hour)
		b.Plan(t, l, time.Hour, linkfield.Change{
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
			b.Now = step.now
			if step.job {
				b.ApplyDue(t)
			}
			got := must.Value(b.Get(t.Context(), b.Mine, l.ID))(t)
			if got.OriginalURL != step.url || optional.Value(got.Title) != step.title || got.Version != step.version {
				t.Errorf("%s: %s %v version %d", step.name, got.OriginalURL, got.Title, got.Version)
			}
			if got := b.Location(t, l); got != step.url {
				t.Errorf("%s: redirects to %s", step.name, got)
			}
			asOf := must.Value(b.History.AsOf(t.Context(), got, b.Now))(t)
			if isAfter := step.url != "https://example.com/a"; asOf.OriginalURL != step.url ||
				isAfter != asOf.From.Equal(at) ||
				isAfter != (asOf.Number == 2) || isAfter != cmp.Equal(asOf.Tags, []string{"new"}) {
				t.Errorf("%s: version %+v", step.name, asOf)
			}
		}
		all := b.AllVersions(t, l)
		if v := all[0]; v.Cause != link.CauseScheduled || v.ActorID != b.Mine.ActorID() || !v.From.Equal(at) ||
			!all[1].To.Equal(at) {
			t.Errorf("%+v", v)
		}
		wanttest.Equal(t, []string{"new"}, b.Tags(t, l), "tags")
		if left := b.pendingRows(t); left != 0 {
			t.Errorf("%d rows left", left)
		}
		b.ExpectConsistent(t)
	})
}

// TestSchedule_StoresCheckedValues: the values written at the instant are those of an edit.
func TestSchedule_StoresCheckedValues(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		planned := b.Plan(t, l, time.Hour, linkfield.Change{Routing: to(&routing.Change{
			PendingURL: to(new(" https://example.com/soon\u0000")), EndedURL: to(new("\thttps://example.com/over ")),
		}), Title: to(new(" later ")), Tags: to([]string{"b", "a", "b"})}).Patch
		if *planned.Title.To != "later" || !slices.Equal(planned.Tags.To, []string{"a", "b"}) {
			t.Errorf("planned: %q, %q", *planned.Title.To, planned.Tags.To)
		}
		b.Now = b.Now.Add(2 * time.Hour)
		b.ApplyDue(t)
		got := must.Value(b.Get(t.Context(), b.Mine, l.ID))(t).Routing
		if *got.PendingURL != "https://example.com/soon" || *got.EndedURL != "https://example.com/over" {
			t.Errorf("%q, %q", *got.PendingURL, *got.EndedURL)
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
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		computed := b.Make(t, creation.Input{URL: "https://example.com/computed"})
		b.Destinations.Blocklist = linktest.BlockedHosts{"evil.example": true}
		inURL := []string{"change", "url"}
		title := linkfield.Change{Title: to(new("later"))}
		for name, c := range map[string]struct {
			link   string
			in     time.Duration
			change linkfield.Change
			want   errs.Kind
			field  []string
		}{
			"too soon":      {l.ID, 5*time.Second - 1, title, errs.InvalidInput, []string{"at"}},
			"too far ahead": {l.ID, 3 * 365 * 24 * time.Hour, title, errs.InvalidInput, []string{"at"}},
			"nothing":       {l.ID, time.Hour, linkfield.Change{}, errs.InvalidInput, []string{"change"}},
			"a maximum": {l.ID, time.Hour, linkfield.Change{MaxClicks: to(new(int64(1)))}, errs.InvalidInput,
				[]string{"change", "maxClicks"}},
			"no link": {"lnk_x", time.Hour, title, errs.NotFound, []string{"linkId"}},
			"no URL":  {l.ID, time.Hour, linkfield.Change{URL: to("x")}, errs.InvalidURL, inURL},
			"blocked URL": {l.ID, time.Hour, linkfield.Change{URL: to("https://evil.example/")},
				errs.UnsafeURL, inURL},
			"own URL": {l.ID, time.Hour, linkfield.Change{URL: to("http://sho.rt/x")}, errs.UnsafeURL, inURL},
			"status": {l.ID, time.Hour, linkfield.Change{RedirectStatus: to(200)}, errs.InvalidInput,
				[]string{"change", "redirectStatus"}},
			"a computed code": {computed.ID, time.Hour, linkfield.Change{URL: to("https://example.com/b")},
				errs.Immutable,
				inURL},
			"failing test": {l.ID, time.Hour,
				linkfield.Change{Routing: to(&routing.Change{Tests: optional.Set([]*routing.Test{{
					Visit: &routing.Sample{}, Location: new("https://example.com/b")}})})}, errs.InvalidInput,
				[]string{"change", "routing", "tests", "0"}},
			"blocked target": {l.ID, time.Hour, linkfield.Change{Routing: to(&routing.Change{EndedURL: optional.Set(
				new("https://evil.example/"))})}, errs.UnsafeURL, []string{"change", "routing", "endedUrl"}},
		} {
			_, err := b.Schedule.Add(t.Context(), b.Mine, c.link, b.Now.Add(c.in), c.change)
			if !errs.Is(err, c.want) || !cmp.Equal(errs.From(err).Field, c.field) {
				t.Errorf("%s: %v at %v", name, err, errs.From(err).Field)
			}
		}
		linktest.Refused(b.Schedule.Add(t.Context(), b.Foreign, l.ID, b.Now.Add(time.Hour), title))(t, errs.NotFound,
			"of a foreign link")
		for i := range maxPending {
			b.Plan(t, l, minLead+time.Duration(i%3)*time.Second, title)
		}
		linktest.Refused(b.Schedule.Add(t.Context(), b.Mine, l.ID, b.Now.Add(time.Hour), title))(t, errs.QuotaExceeded,
			"one too many")
	})
}

// redirectsTo is a change that adds a test of the routing.
func redirectsTo(url string) optional.Edit[*routing.Change] {
	return to(&routing.Change{Tests: optional.Set([]*routing.Test{{Visit: &routing.Sample{}, Location: &url}})})
}

// TestSchedule_LaterEditsRespectIt: an edit that breaks a state after a pending change is refused
// with its id, and so is a cancellation on which another change depends.
func TestSchedule_LaterEditsRespectIt(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		toB := b.Plan(t, l, time.Hour, linkfield.Change{URL: to("https://example.com/b")})
		_, err := b.Edit.Update(t.Context(), b.Mine,
			linkfield.Change{ID: l.ID, Routing: redirectsTo("https://example.com/a")})
		if !errs.Is(err, errs.InvalidInput) || !contains(err, toB.ID) {
			t.Errorf("a test that fails afterwards: %v", err)
		}
		tested := b.Plan(t, l, 2*time.Hour, linkfield.Change{Routing: redirectsTo("https://example.com/b")})
		if _, err := b.Schedule.Cancel(t.Context(), b.Mine, toB.ID); !errs.Is(err, errs.InvalidInput) ||
			!contains(err, tested.ID) {
			t.Errorf("canceling what another needs: %v", err)
		}
		if _, err := b.Schedule.Add(t.Context(), b.Mine, l.ID, b.Now.Add(90*time.Minute),
			linkfield.Change{URL: to("https://example.com/c")}); !errs.Is(err, errs.InvalidInput) ||
			!contains(err, tested.ID) {
			t.Errorf("scheduling what breaks another: %v", err)
		}
		b.Change(t, l, linkfield.Change{Title: to(new("kept"))})
		b.Destinations.Blocklist = linktest.BlockedHosts{"example.com": true}
		if _, err := b.Edit.Delete(t.Context(), b.Mine, l.ID); err != nil {
			t.Errorf("deleting: %v", err)
		}
		b.Now = b.Now.Add(3 * time.Hour)
		b.ApplyDue(t)
		if got := b.Reload(t, l); got.OriginalURL != "https://example.com/b" || optional.Value(got.Title) != "kept" ||
			got.DeletedAt == nil || len(got.Routing.Tests) != 1 {
			t.Errorf("afterwards: %+v", got)
		}
		b.ExpectConsistent(t)
	})
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// TestSchedule_Cancel removes the change everywhere.
func TestSchedule_Cancel(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		c := b.Plan(t, l, time.Hour, linkfield.Change{URL: to("https://evil.example/")})
		due := b.Plan(t, l, 30*time.Minute, linkfield.Change{Title: to(new("due"))})
		if spaces, err := b.Schedule.Changes().WorkspaceOf(t.Context(), c.ID); err != nil || spaces != b.Mine.ID() {
			t.Errorf("%s: %v", spaces, err)
		}
		linktest.Refused(b.Schedule.Cancel(t.Context(), b.Foreign, c.ID))(t, errs.NotFound, "by a foreign member")
		if got, err := b.Schedule.Cancel(t.Context(), b.Mine, c.ID); err != nil || !got.NextChangeAt.Equal(due.DueAt) {
			t.Errorf("%+v: %v", got, err)
		}
		linktest.Refused(b.Schedule.Cancel(t.Context(), b.Mine, c.ID))(t, errs.NotFound, "again")
		b.Now = due.DueAt
		linktest.Refused(b.Schedule.Cancel(t.Context(), b.Mine, due.ID))(t, errs.NotFound, "once it took effect")
		b.Now = c.DueAt
		b.ApplyDue(t)
		if got := b.Reload(t, l); got.OriginalURL != "https://example.com/a" || got.NextChangeAt != nil ||
			b.Location(t, l) != "https://example.com/a" {
			t.Errorf("%+v", got)
		}
		var urls []string
		err := b.DB.NewSelect().Table("link_urls").Column("url").Where("link_id = ?", l.ID).
			Scan(db.AsSystem(t.Context()), &urls)
		if err != nil || len(urls) > 0 {
			t.Errorf("URLs left: %v: %v", urls, err)
		}
		var actions []string
		err = b.DB.NewSelect().Table("audit_events").ColumnExpr("DISTINCT action").Where("target_id = ?", l.ID).
			Where("version IS NULL").Order("action").Scan(db.AsSystem(t.Context()), &actions)
		want := []string{string(audit.LinkChangeCanceled), string(audit.LinkChangeScheduled)}
		if diff := cmp.Diff(want, actions); err != nil || diff != "" {
			t.Errorf("audit log: %v\n%s", err, diff)
		}
	})
}

// TestSchedule_EditWritesDueChangesFirst: the edit sees the state after them.
func TestSchedule_EditWritesDueChangesFirst(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		other := b.Make(t, creation.Input{URL: "https://example.com/other", Strategy: new(link.Random)})
		for i, one := range []*link.Link{l, other} {
			b.Plan(t, one, time.Hour,
				linkfield.Change{Title: to(new("first")), URL: to(fmt.Sprint("https://example.com/b", i))})
			b.Plan(t, one, time.Hour, linkfield.Change{Title: to(new("second"))})
			b.Plan(t, one, 2*time.Hour, linkfield.Change{Note: to(new("third"))})
		}
		b.Now = b.Now.Add(3 * time.Hour)
		results := must.Value(b.Edit.UpdateMany(t.Context(), b.Mine, []linkfield.Change{
			{ID: l.ID, RedirectStatus: to(301)}, {ID: other.ID, Title: to(new("second"))},
		}, link.SkipFailed))(t)
		for i, want := range []int{4, 3} {
			if got := results[i].Link; results[i].Err != nil || optional.Value(got.Title) != "second" ||
				got.Version != want ||
				got.OriginalURL != fmt.Sprint("https://example.com/b", i) {
				t.Errorf("%d: %+v: %v", i, got, results[i].Err)
			}
		}
		var causes []link.Cause
		var from []time.Duration
		for _, v := range b.AllVersions(t, l) {
			causes, from = append(causes, v.Cause), append(from, v.From.Sub(noon).Truncate(time.Millisecond))
		}
		wanttest.Equal(t, []link.Cause{link.CauseUpdated, link.CauseScheduled, link.CauseScheduled, link.CauseCreated},
			causes, "causes")
		wanttest.Equal(t, []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour, 0}, from, "from")
		if got := b.Differences(t); len(got) > 0 || b.pendingRows(t) > 0 {
			t.Errorf("differences: %v, %d pending", got, b.pendingRows(t))
		}
	})
}

// TestSchedule_VersionBeginsAfterItsPredecessor, also if a node with a clock ahead has changed the
// link.
func TestSchedule_VersionBeginsAfterItsPredecessor(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		b.Now = noon.Add(time.Hour)
		ahead := b.Change(t, l, linkfield.Change{Title: to(new("ahead"))})
		b.Now = noon
		c := b.Plan(t, l, time.Minute, linkfield.Change{Title: to(new("behind"))})
		b.Now = c.DueAt
		asOf, err := b.History.AsOf(t.Context(), b.Reload(t, l), b.Now)
		if err != nil || asOf.Number != 1 {
			t.Errorf("%+v: %v", asOf, err)
		}
		b.ApplyDue(t)
		if got := b.AllVersions(t, l)[0]; !got.From.Equal(ahead.UpdatedAt.Add(time.Microsecond)) || got.Number != 3 {
			t.Errorf("begins at %s", got.From)
		}
		b.ExpectConsistent(t)
	})
}

// TestSchedule_CapsTargetsFromItsInstant: the maximum of a new target exists before the change is
// written.
func TestSchedule_CapsTargetsFromItsInstant(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		capped := &routing.Target{URL: new("https://example.com/capped"), MaxClicks: new(int64(5))}
		rules := []*routing.Rule{{Targets: []*routing.Target{capped}}}
		c := b.Plan(t, l, time.Hour, linkfield.Change{Routing: to(&routing.Change{Rules: optional.Set(rules)})})
		b.Plan(t, l, 2*time.Hour, linkfield.Change{Title: to(new("later"))})
		target := c.Patch.Routing.To.Rules.To[0].Targets[0].ID
		if got := maximumOf(t, b.DB, target); got == nil || *got != 5 {
			t.Errorf("before: %v", got)
		}
		// The row gets the target too, and loses it: the maximum stays for the pending change.
		b.Change(t, l, linkfield.Change{Routing: to(&routing.Change{Rules: optional.Set(rules)})})
		own := b.Reload(t, l).Routing.Rules
		b.Plan(t, l, time.Minute, linkfield.Change{Routing: to(&routing.Change{Rules: optional.Set(own)})})
		b.Change(t, l, linkfield.Change{Routing: to[*routing.Change](nil)})
		last := b.pending(t, l)[0].Patch.Routing.To.Rules.To[0].Targets[0].ID
		if got := maximumOf(t, b.DB, last); got == nil || *got != 5 {
			t.Errorf("of a target that only a pending change has: %v", got)
		}
		b.Now = c.DueAt
		b.ApplyDue(t)
		got := b.Reload(t, l)
		if len(got.Routing.Rules) != 1 || got.Routing.Rules[0].Targets[0].ID != target {
			t.Errorf("%+v", got.Routing)
		}
		if got := maximumOf(t, b.DB, target); got == nil || *got != 5 {
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
	changes := must.Value(b.Schedule.ByLink(t.Context(), b.Mine, l.ID))(t)
	return b.Reload(t, l).Pending(changes[l.ID], b.Now)
}

// TestSchedule_SurvivesDeletion: a deleted link keeps its changes, which take effect; purging
// removes them.
func TestSchedule_SurvivesDeletion(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/computed"})
		b.Plan(t, l, time.Hour, linkfield.Change{Title: to(new("due"))})
		b.Plan(t, l, 365*24*time.Hour, linkfield.Change{Title: to(new("far")), RedirectStatus: to(301)})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(time.Hour)
		b.ApplyDue(t)
		if got := b.Reload(t, l); optional.Value(got.Title) != "due" || got.DeletedAt == nil ||
			got.NextChangeAt == nil {
			t.Errorf("%+v", got)
		}
		must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		var purged link.Link
		err := b.DB.NewSelect().Model(&purged).Where("id = ?", l.ID).Scan(db.AsSystem(t.Context()))
		if err != nil || purged.PurgedAt == nil || purged.NextChangeAt != nil || b.pendingRows(t) != 0 {
			t.Errorf("%+v, %d left: %v", purged, b.pendingRows(t), err)
		}
	})
}

// TestSchedule_IsWrittenOnce though two nodes and an edit do it at the same time.
func TestSchedule_IsWrittenOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var links []*link.Link
		for i := range 20 {
			l := b.Make(t, creation.Input{URL: fmt.Sprint("https://example.com/", i), Strategy: new(link.Random)})
			b.Plan(t, l, time.Hour, linkfield.Change{URL: to(fmt.Sprint("https://example.com/later/", i))})
			links = append(links, l)
		}
		b.Now = b.Now.Add(time.Hour)
		other := b.Node(t, b.DB)
		other.Now = b.Links.Now
		done := make(chan error, 3)
		go func() { done <- b.Schedule.ApplyDue(t.Context()) }()
		go func() { done <- (&edit.Schedules{Store: other}).ApplyDue(t.Context()) }()
		go func() {
			var changes []linkfield.Change
			for _, l := range links {
				changes = append(changes, linkfield.Change{ID: l.ID, Title: to(new("edited"))})
			}
			_, err := b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed)
			done <- err
		}()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.ApplyDue(t)
		for _, l := range links {
			if got := b.Reload(t, l); got.Version != 3 || optional.Value(got.Title) != "edited" {
				t.Errorf("%+v", got)
			}
		}
		if got := b.Differences(t); len(got) > 0 || b.pendingRows(t) > 0 {
			t.Errorf("differences: %v, %d pending", got, b.pendingRows(t))
		}
	})
}

// TestSchedule_WorksWithoutDatabase: a node switches at each instant from memory.
func TestSchedule_WorksWithoutDatabase(t *testing.T) {
	t.Parallel()
	b := creationtest.New(t, dbtest.MigratedSQLite(t))
	l := b.Make(t, creation.Input{URL: "https://example.com/0", Strategy: new(link.Random)})
	for i := 1; i <= 3; i++ {
		b.Plan(t, l, time.Duration(i)*time.Minute, linkfield.Change{URL: to(fmt.Sprint("https://example.com/", i))})
	}
	b.Plan(t, l, 3*time.Minute, linkfield.Change{URL: to("https://example.com/last")})
	must.NoError(t, b.Feed.CatchUp(t.Context()))
	start := b.Now
	_ = b.Location(t, l)
	must.NoError(t, b.DB.Close())
	for after, want := range map[time.Duration]string{
		0: "0", time.Minute - 1: "0", time.Minute: "1", 2*time.Minute - time.Microsecond: "1", 2 * time.Minute: "2",
		3*time.Minute - 1: "2", 3 * time.Minute: "last", 4 * time.Minute: "last",
	} {
		b.Now = start.Add(after)
		if got := b.Location(t, l); got != "https://example.com/"+want {
			t.Errorf("after %s: %s", after, got)
		}
	}
}

// TestSchedule_ChecksLeadOnceLocked: the wait for the lock may take longer than the lead.
func TestSchedule_ChecksLeadOnceLocked(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
		reads := 0
		b.Store.Now = func() time.Time {
			if reads++; reads == 1 {
				return noon
			}
			return noon.Add(time.Second) // the first reading was before the lock
		}
		_, err := b.Schedule.Add(t.Context(), b.Mine, l.ID, noon.Add(minLead), linkfield.Change{Title: to(new("late"))})
		if !errs.Is(err, errs.InvalidInput) || b.pendingRows(t) != 0 {
			t.Errorf("%d pending changes: %v", b.pendingRows(t), err)
		}
	})
}

func TestStore_ByActor(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		member := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
		one := b.Make(t, creation.Input{URL: "https://example.com/1"})
		two := b.Make(t, creation.Input{URL: "https://example.com/2"})
		schedule := func(m workspace.Membership, l *link.Link, in time.Duration) string {
			return must.Value(b.Schedule.Add(t.Context(), m, l.ID, b.Now.Add(in),
				linkfield.Change{Title: optional.Set(new("later"))}))(t).ID
		}
		second, first := schedule(member, one, 2*time.Hour), schedule(member, two, time.Hour)
		schedule(b.Mine, one, time.Hour)
		schedule(member, one, time.Minute)
		b.Now = b.Now.Add(2 * time.Minute) // one has taken effect
		got := must.Value(b.Schedule.ByActor(t.Context(), b.Mine, member.AccountID()))(t)
		if len(got) != 2 || got[0].ID != first || got[1].ID != second || got[0].Link.ID != two.ID {
			t.Errorf("%+v", got)
		}
		if got := must.Value(b.Schedule.ByActor(t.Context(), b.Foreign, member.AccountID()))(t); len(got) != 0 {
			t.Errorf("of another workspace: %+v", got)
		}
	})
}
