package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// Each node is visited scheduledVisits times before the instant and as often after it, every scheduledPause.
var (
	scheduledVisits = suitetest.Size(20, 200)
	scheduledPause  = suitetest.Size(5*time.Millisecond, time.Millisecond)
)

// schedule schedules a change of a link.
func (w tenant) schedule(t *testing.T, linkID string, at time.Time, change map[string]any) {
	t.Helper()
	var got struct {
		ScheduleLinkChange struct {
			ScheduledChange struct{ ID string }
			Errors          []problem
		}
	}
	w.must(t, &got, `mutation ($in: ScheduleLinkChangeInput!) { scheduleLinkChange(input: $in) {
		scheduledChange { id } errors { code message field } } }`,
		map[string]any{"in": map[string]any{"linkId": linkID, "at": at, "change": change}})
	if got.ScheduleLinkChange.ScheduledChange.ID == "" {
		t.Fatalf("not scheduled: %v", got.ScheduleLinkChange.Errors)
	}
}

// TestScheduledChange_SwitchesAllNodesAtItsInstant sends requests to two nodes around the instant,
// also while both are without database: a response before it has the old destination, and a request
// after it gets the new one. Then the change is one version and one event, which begin at the
// instant.
func TestScheduledChange_SwitchesAllNodesAtItsInstant(t *testing.T) {
	t.Parallel()
	for name, isDown := range map[string]bool{"with database": false, "without database": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := startMembers(t, production(t), 2, "LINKFORGE_LINK_RATE=0")
			who := nodes[0].tenant(t, "scheduled")
			l := who.shorten(t, "https://example.com/old", "strategy", "RANDOM").Link
			removed := who.shorten(t, "https://example.com/removed", "strategy", "RANDOM").Link
			follow := func(m *member, l linkView) string { // by HEAD, which needs no monthly hits in a sudden burst
				a, err := m.request(http.MethodHead, l.path(nodes[0].server), "")
				if err != nil || a.status != http.StatusFound {
					return fmt.Sprint(a.status, err)
				}
				return a.header.Get("Location")
			}
			visit := func(m *member) string { return follow(m, l) }
			for _, m := range nodes { // both links are in memory before
				visit(m)
				follow(m, removed)
			}
			at := time.Now().Add(6 * time.Second).Truncate(time.Microsecond)
			who.schedule(t, l.ID, at, map[string]any{"url": "https://example.com/new"})
			who.remove(t, removed.ID)
			for _, m := range nodes {
				polltest.Until(t, "it has learned of the later change", func() bool {
					return strings.HasPrefix(follow(m, removed), "404")
				})
				polltest.Until(t, "it redirects to the old destination", func() bool {
					m.database.Set(faulttest.Pass)
					isLoaded := visit(m) == "https://example.com/old"
					if isDown {
						m.database.Set(faulttest.BlackHole)
					}
					return isLoaded && visit(m) == "https://example.com/old" // a poll may remove it until then
				})
			}
			span := time.Duration(scheduledVisits) * scheduledPause
			var all sync.WaitGroup
			var unanswered atomic.Int64 // on a busy machine a look-up takes longer than a visitor waits
			for n := range 2 * scheduledVisits {
				polltest.Elapse(time.Until(at.Add(time.Duration(n)*scheduledPause - span)))
				for _, m := range nodes {
					all.Go(func() {
						sent := time.Now()
						got := visit(m)
						received := time.Now()
						if !isDown && strings.HasPrefix(got, "503") {
							unanswered.Add(1)
							return
						}
						isEarly := received.Before(at) && got != "https://example.com/old"
						isLate := !sent.Before(at) && got != "https://example.com/new"
						if isEarly || isLate {
							t.Errorf("sent %s, received %s after the instant: %s", sent.Sub(at), received.Sub(at), got)
						}
					})
				}
			}
			all.Wait()
			if n := unanswered.Load(); int(n) > scheduledVisits {
				t.Errorf("%d of %d visits have no destination", n, 4*scheduledVisits)
			}
			for _, m := range nodes {
				m.database.Set(faulttest.Pass)
			}
			who.expectScheduled(t, l.ID, at)
		})
	}
}

// expectScheduled waits until the change at an instant is written, and checks its version and event.
func (w tenant) expectScheduled(t *testing.T, linkID string, at time.Time) {
	t.Helper()
	type record struct {
		Version, Number int
		Cause, Type     string
		From, At        time.Time
	}
	var got struct {
		Node struct {
			Version int
			AsOf    record
		}
		Workspace struct {
			Events struct{ Edges []struct{ Node record } }
		}
	}
	polltest.Within(t, 30*time.Second, "the change is written", func() bool {
		err := w.try(&got, `query ($w: ID!, $id: ID!, $at: Time!) {
			node(id: $id) { ... on Link { version asOf(at: $at) { number cause from } } }
			workspace(by: {id: $w}) { events(types: [LINK_UPDATED]) { edges { node { type at version } } } } }`,
			map[string]any{"w": w.workspaceID, "id": linkID, "at": at})
		return err == nil && got.Node.Version == 2 && len(got.Workspace.Events.Edges) > 0
	})
	if v := got.Node.AsOf; v.Number != 2 || v.Cause != "SCHEDULED" || !v.From.Equal(at) {
		t.Errorf("version %+v", v)
	}
	events := got.Workspace.Events.Edges
	if len(events) != 1 || !events[0].Node.At.Equal(at) || events[0].Node.Version != 2 {
		t.Errorf("events %+v", events)
	}
}
