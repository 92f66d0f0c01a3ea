package upkeep

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces, and the store that creates their links.
type bundle struct {
	*Store
	*creationtest.World
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	w := creationtest.New(t, d)
	w.Quota.Default = 10_000
	return &bundle{&Store{w.Links, linktest.Tombstones}, w}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

// routed creates a link with a target and fallback URLs.
func (b *bundle) routed(t *testing.T, target, ended, pending string) *link.Link {
	t.Helper()
	return b.Make(t,
		creation.Input{URL: "https://example.com/own/" + target,
			Fields: linkfield.Change{Routing: optional.Set(routingTo(target, ended, pending))}})
}

func routingTo(target, ended, pending string) *routing.Change {
	at := func(path string) *string { return new("https://example.com/" + path) }
	return &routing.Change{
		Rules:    optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: at(target)}}}}),
		EndedURL: optional.Set(at(ended)), PendingURL: optional.Set(at(pending)),
	}
}

// grant takes one redirect of a link with MaxClicks.
func (b *bundle) grant(t *testing.T, l *link.Link) {
	t.Helper()
	if _, ok, err := b.Grants.Grant(t.Context(), l.ID); err != nil || !ok {
		t.Fatalf("granted %t: %v", ok, err)
	}
}

// events returns the events of the links.
func (b *bundle) events(t *testing.T) (all []*audit.Event) {
	t.Helper()
	must.NoError(t, b.DB.NewSelect().Model(&all).Where("workspace_id = ?", b.Mine.ID()).Where("action LIKE 'LINK_%'").
		Order("seq").Scan(db.AsSystem(t.Context())))
	return all
}

// there says which of the links the store still has.
func (b *bundle) there(t *testing.T, links map[string]*link.Link) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for name, l := range links {
		_, err := b.Get(t.Context(), b.Mine, l.ID)
		if err != nil && !errs.Is(err, errs.NotFound) {
			t.Fatal(err)
		}
		found[name] = err == nil
	}
	return found
}

func TestUpkeep_CleanUpPurgesAfterTombstones(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, late := noon.Add(time.Hour), noon.Add(200*24*time.Hour)
		tagged := creation.Input{URL: "https://example.com/tagged",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon), Tags: optional.Set([]string{"old"})}}
		links := map[string]*link.Link{}
		for name, in := range map[string]creation.Input{
			"expired": tagged,
			"expired, counted": {URL: "https://example.com/counted", Strategy: new(link.Counter),
				Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}},
			"deleted":         {URL: "https://example.com/deleted"},
			"deleted, custom": {URL: "https://example.com/custom", CustomCode: new("promo")},
			"disabled": {URL: "https://example.com/disabled",
				Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}},
			"active": {URL: "https://example.com/active"},
			"expires later": {URL: "https://example.com/later",
				Fields: linkfield.Change{ExpiresAt: optional.Set(&late)}},
			"prolonged": {URL: "https://example.com/prolonged",
				Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}},
			"restored": {URL: "https://example.com/restored"},
		} {
			links[name] = b.Make(t, in)
		}
		for _, name := range []string{"deleted", "deleted, custom", "restored"} {
			must.Value(b.Edit.Delete(t.Context(), b.Mine, links[name].ID))(t)
		}
		b.Set(t, links["disabled"], "disabled_at = ?", noon)
		all := map[string]bool{}
		for name := range links {
			all[name] = true
		}
		b.Now = soon
		must.NoError(t, b.CleanUp(t.Context())) // marks
		b.Change(t, links["prolonged"], linkfield.Change{ExpiresAt: optional.Set(&late)})
		must.Value(b.Edit.Restore(t.Context(), b.Mine, links["restored"].ID))(t)
		b.Now = noon.Add(linktest.Tombstones - time.Microsecond)
		must.NoError(t, b.CleanUp(t.Context()))
		wanttest.Equal(t, all, b.there(t, links), "before the tombstones' end")
		b.Now = soon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		for _, gone := range []string{"expired", "expired, counted", "deleted", "deleted, custom"} {
			all[gone] = false
		}
		wanttest.Equal(t, all, b.there(t, links), "after it")
		b.ExpectRows(t, 0, "link_tags", "TRUE")
	})
}

// TestUpkeep_PurgedURLKeepsItsCode: nothing else of the link is left.
func TestUpkeep_PurgedURLKeepsItsCode(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, title := noon.Add(time.Hour), "title"
		l := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon), Title: optional.Set(&title),
				Note: optional.Set(&title)}})
		b.Now = soon
		must.NoError(t, b.CleanUp(t.Context()))
		b.Now = soon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		var kept struct {
			link.Link `bun:",extend"`

			TitleKey, Search string
		}
		must.NoError(t, b.DB.NewSelect().Model(&kept).Where("id = ?", l.ID).Scan(db.AsSystem(t.Context())))
		if kept.OriginalURL+kept.CanonicalURL+kept.Search+kept.TitleKey != "" || kept.Title != nil ||
			kept.Note != nil ||
			kept.CreatedBy != nil {
			t.Errorf("more is kept than the code: %+v", kept)
		}
		for name, err := range map[string]error{
			"update": second(b.Edit.Update(t.Context(), b.Mine,
				linkfield.Change{ID: l.ID, Title: optional.Set(&title)})),
			"delete":  second(b.Edit.Delete(t.Context(), b.Mine, l.ID)),
			"restore": second(b.Edit.Restore(t.Context(), b.Mine, l.ID)),
			"find":    second(b.WorkspaceOf(t.Context(), l.ID)),
		} {
			t.Run(name, func(t *testing.T) {
				if !errs.Is(err, errs.NotFound) {
					t.Error(err)
				}
			})
		}
		if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil ||
			target.Status(b.Now) != routing.Deleted {
			t.Errorf("resolved: %v, %v", target, err)
		}
		if p, err := b.Preview(t.Context(), b.Mine, "https://example.com/a"); err != nil || p.Existing != nil {
			t.Errorf("previewed: %v, %v", p, err)
		}
		again := b.Make(t, creation.Input{URL: "https://example.com/a"})
		if again.Code != l.Code || again.Status(b.Now) != routing.Active || again.Title != nil ||
			again.ExpiresAt != nil ||
			again.CanonicalURL != l.CanonicalURL {
			t.Errorf("made again: %+v", again)
		}
	})
}

// TestUpkeep_CleanUpInBatches: more links than one batch, from two nodes at once.
func TestUpkeep_CleanUpInBatches(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		in := creationtest.URLs(0, 2*batchSize+10)
		for _, one := range in {
			one.Strategy, one.Fields.ExpiresAt = new(link.Counter), optional.Set(&soon)
		}
		b.MakeMany(t, link.SkipFailed, in[:link.MaxBatch]...)
		b.MakeMany(t, link.SkipFailed, in[link.MaxBatch:]...)
		stays := b.Make(t, creation.Input{URL: "https://example.com/stays"})
		b.Now = soon
		b.recordTransitions(t)
		b.Now = soon.Add(linktest.Tombstones)
		got := linktest.AtOnce(2, func(int) string { return linktest.KindOf(b.CleanUp(t.Context())) })
		wanttest.Equal(t, map[string]int{"": 2}, got, "errors")
		must.NoError(t, b.CleanUp(t.Context())) // what one of them passed over because the other had it
		var left []string
		if err := b.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Scan(db.AsSystem(t.Context()),
			&left); err != nil ||
			!cmp.Equal(left, []string{stays.ID}) {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// TestUpkeep_FailingStepDelaysNoOther of a clean-up.
func TestUpkeep_FailingStepDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		l := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}})
		b.Now = soon
		must.NoError(t, b.RecordTransitions(t.Context()))
		b.Now = soon.Add(linktest.Tombstones)
		clicktest.Rename(t, b.DB, "grants", "elsewhere") // which transitions read
		if err := b.CleanUp(t.Context()); err == nil {
			t.Error("transitions were recorded without their table")
		}
		clicktest.Rename(t, b.DB, "elsewhere", "grants")
		if b.there(t, map[string]*link.Link{"it": l})["it"] {
			t.Error("the link is not purged")
		}
	})
}

// TestUpkeep_LinkThatReturnsGetsANewTombstone, although it expired long ago: one that is restored,
// or enabled again.
func TestUpkeep_LinkThatReturnsGetsANewTombstone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon := noon.Add(time.Hour)
		deleted := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}})
		disabled := b.Make(t, creation.Input{URL: "https://example.com/b",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}})
		links := map[string]*link.Link{"deleted": deleted, "disabled": disabled}
		b.Set(t, disabled, "disabled_at = ?", noon)
		b.Now = noon.Add(linktest.Tombstones - 24*time.Hour)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		returned := noon.Add(linktest.Tombstones + 24*time.Hour)
		b.Now = returned
		must.Value(b.Edit.Restore(t.Context(), b.Mine, deleted.ID))(t)
		b.Set(t, disabled, "disabled_at = NULL")
		must.NoError(t, b.CleanUp(t.Context()))
		wanttest.Equal(t, map[string]bool{"deleted": true, "disabled": true}, b.there(t, links),
			"returned, and gone with the next clean-up")
		wanttest.Equal(t, []string{"EXPIRED 1h0m0s"}, b.transitionsOf(t, disabled), "difference")
		b.Now = returned.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		wanttest.Equal(t, map[string]bool{"deleted": false, "disabled": false}, b.there(t, links), "stands for ever")
	})
}

// TestUpkeep_RevivedPurgedLinkHasNoHistory: nothing of the clicks before counts towards its limit.
func TestUpkeep_RevivedPurgedLinkHasNoHistory(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a"})
		b.Follow(t, l, 10)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = noon.Add(linktest.Tombstones)
		must.NoError(t, b.CleanUp(t.Context()))
		five := int64(5)
		if l = b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{MaxClicks: optional.Set(&five)}}); l.Status(
			b.Now) != routing.Active ||
			*l.CreatedBy != b.Me {
			t.Errorf("%+v", l)
		}
		for _, count := range []func(context.Context) error{b.Grants.RaiseGrants, b.Grants.RecountGrants} {
			must.NoError(t, count(t.Context()))
			if l, err := b.Get(t.Context(), b.Mine, l.ID); err != nil || l.CreatedBy == nil || l.Granted != 0 {
				t.Errorf("read: %+v, %v", l, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

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
	wanttest.Equal(t, want, b.transitionsOf(t, l), "%s", when)
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
			in[i].Fields = linkfield.Change{StartsAt: optional.Set(&starts), ExpiresAt: optional.Set(&expires)}
		}
		links := b.MakeMany(t, link.SkipFailed, in...)
		b.expectTransitions(t, "before", links[0].Link)
		b.Now = expires.Add(time.Hour)
		got := linktest.AtOnce(4, func(int) string { return linktest.KindOf(b.RecordTransitions(t.Context())) })
		wanttest.Equal(t, map[string]int{"": 4}, got, "errors")
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
		wanttest.Equal(t, want, counts, "difference")
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
		l := b.Make(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{StartsAt: optional.Set(at(1)), ExpiresAt: optional.Set(at(10))}})
		b.Now = *at(2)
		b.expectTransitions(t, "started", l, "STARTED 1m0s")
		b.Change(t, l, linkfield.Change{Title: optional.Set(new("other"))})
		b.Change(t, l, linkfield.Change{StartsAt: optional.Set(at(0))})
		b.expectTransitions(t, "other edits", l, "STARTED 1m0s")
		b.Change(t, l, linkfield.Change{StartsAt: optional.Set(at(5))})
		b.expectTransitions(t, "moved into the future", l, "STARTED 1m0s")
		b.Now = *at(11)
		b.expectTransitions(t, "again", l, "STARTED 1m0s", "STARTED 5m0s", "EXPIRED 10m0s")
		b.Change(t, l, linkfield.Change{ExpiresAt: optional.Set(at(20))})
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
		in := creation.Input{URL: "https://example.com/", Strategy: new(link.Random),
			Fields: linkfield.Change{StartsAt: optional.Set(&starts), ExpiresAt: optional.Set(&expires)}}
		deleted := b.Make(t, in)
		disabled := b.Make(t, in)
		anonymous, _ := b.Anonymous(t, "https://example.com/anonymous")
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		b.Set(t, disabled, "disabled_at = ?", noon)
		b.Now = expires.Add(time.Hour)
		for _, l := range []*link.Link{deleted, disabled, anonymous} {
			b.expectTransitions(t, "not", l)
		}
		b.ExpectRows(t, 1, "links", "id = ? AND ended_at = expires_at", anonymous.ID)
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
		l := b.Make(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(2)))}})
		plain := b.Make(t, creation.Input{URL: "https://example.com/plain"})
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
		b.Change(t, l, linkfield.Change{Title: optional.Set(new("other"))})
		b.expectTransitions(t, "another edit", l, "EXHAUSTED 1m0s")
		b.Change(t, l, linkfield.Change{MaxClicks: optional.Set(new(int64(3)))})
		b.expectTransitions(t, "a raised maximum", l, "EXHAUSTED 1m0s")
		b.grant(t, l)
		b.Follow(t, l, 1)
		b.Tick()
		b.expectTransitions(t, "reached again", l, "EXHAUSTED 1m0s", "EXHAUSTED 2m0s")
		b.Change(t, l, linkfield.Change{MaxClicks: optional.Set[*int64](nil)})
		b.Change(t, l, linkfield.Change{MaxClicks: optional.Set(new(int64(1)))})
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
		created := b.Make(t, creation.Input{URL: "https://example.com/created",
			Fields: linkfield.Change{StartsAt: optional.Set(&past)}})
		edited := b.Make(t, creation.Input{URL: "https://example.com/edited"})
		b.Change(t, edited, linkfield.Change{StartsAt: optional.Set(&past)})
		for range 2 {
			b.expectTransitions(t, "created", created, "STARTED -1h0m0s")
			b.expectTransitions(t, "edited", edited, "STARTED -1h0m0s")
			b.Change(t, edited, linkfield.Change{StartsAt: optional.Set(&earlier)})
		}
	})
}

// TestTransitions_ReadTheirIndexes: links without a transition to record cost nothing.
func TestTransitions_ReadTheirIndexes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.MakeMany(t, link.SkipFailed, creationtest.URLs(0, link.MaxBatch)...)
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
