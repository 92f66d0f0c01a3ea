package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// versionOf is a version of a link, which has one event.
type versionOf struct {
	TargetID string
	Version  int
}

// changers change the links of a tenant through all nodes.
type changers struct {
	editor

	receiver *hookReceiver
	// done counts changes with a response, and seen, guarded by mu, has what these have named.
	done atomic.Int64
	seen []versionOf
}

// TestFault_FailoverKeepsEvents promotes the synchronous standby while clients change links. Each
// change with a response is in the audit log once. Feed, subscriptions and webhooks have the same
// events in one order, and the versions of each link have no gaps. Redirects follow the changes.
func TestFault_FailoverKeepsEvents(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	for name, isCutOff := range map[string]bool{"under load": false, "of a standby that was cut off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := dbtest.NewPair(t)
			pair.Synchronize(t)
			b := onPostgres(t, pair.BothURL)
			b.fails = true
			c, first := newChangers(t, b)
			following, stop := context.WithCancel(t.Context())
			received := make(chan string, 10_000)
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			running.Go(func() { c.follow(following, first, received) })
			end := c.change(t)
			c.await(t, 40)
			var late *listener
			var before int
			if isCutOff {
				end()
				late, before = c.cutOff(t, pair)
				end = c.change(t)
				polltest.Elapse(time.Second) // changes wait for the standby
			}
			pair.Promote(t)
			c.await(t, 40)
			end()
			feed := c.compareLogs(t, b)
			polltest.Until(t, "the subscriber has all events", func() bool { return len(received) >= len(feed)-1 })
			subscribed := []string{first}
			for len(received) > 0 {
				subscribed = append(subscribed, <-received)
			}
			if diff := cmp.Diff(feed, subscribed); diff != "" {
				t.Errorf("(-feed +subscription):\n%s", diff)
			}
			if late != nil {
				if diff := cmp.Diff(feed[before:], late.receive(t, len(feed)-before)); diff != "" {
					t.Errorf("(-feed +subscription that began before the promotion):\n%s", diff)
				}
			}
			c.expectRedirects(t)
			t.Logf("%d events, %d changes with a response", len(feed), c.done.Load())
		})
	}
}

// newChangers starts two nodes, which have a few links in memory, and a webhook. It returns the id of the first event.
func newChangers(t *testing.T, b backend) (c *changers, first string) {
	t.Helper()
	nodes := startAll(t, b, 2, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1")
	c = &changers{editor: editor{tenant: nodes[0].tenant(t, "promoted"), nodes: nodes}, receiver: newHookReceiver(t, 0)}
	_, secret := c.hook(t, c.receiver.URL, nil, "LINK_CREATED", "LINK_UPDATED")
	c.receiver.mu.Lock()
	c.receiver.secrets = []string{secret}
	c.receiver.mu.Unlock()
	for range 6 {
		must.NoError(t, c.create(c.tenant))
	}
	polltest.Until(t, "the feed has an event", func() bool {
		feed := c.feed(t, "")
		if len(feed) > 0 {
			first = feed[0]
		}
		return first != ""
	})
	c.expectRedirects(t)
	return c, first
}

// cutOff cuts the standby off while no change is under way. Transactions
// that the standby misses end on the primary, and both nodes read the logs after them. It returns a subscriber that has
// begun after them, and the number of events before it.
func (c *changers) cutOff(t *testing.T, pair *dbtest.Pair) (late *listener, before int) {
	t.Helper()
	polltest.Settled(t, "all webhooks are sent", time.Second, func() int64 { return int64(len(c.receiver.ids())) })
	before = len(c.feed(t, ""))
	pair.CutOff(t, 2000)
	late = c.listenToLog(t, "events", "", "")
	polltest.Elapse(time.Second)
	return late, before
}

// change starts clients that change links until end is called.
func (c *changers) change(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	for range 6 {
		changing.Go(func() {
			for ctx.Err() == nil {
				change := []func(tenant) error{c.create, c.updateSome, c.updateSome, c.updateSome}[rand.IntN(4)]
				if err := change(c.onServer(c.nodes[rand.IntN(len(c.nodes))])); err == nil {
					c.done.Add(1)
				}
				_ = poll.Wait(ctx, pollEvery)
			}
		})
	}
	return func() {
		cancel()
		changing.Wait()
	}
}

// await waits for n changes with a response.
func (c *changers) await(t *testing.T, n int64) {
	t.Helper()
	from := c.done.Load()
	polltest.Until(t, "changes have responses", func() bool { return c.done.Load() >= from+n })
}

// create creates a link.
func (c *changers) create(w tenant) error {
	made, err := w.create(fmt.Sprint("https://example.com/", rand.Int64()), "strategy", "RANDOM")
	if err != nil || made.Link.ID == "" {
		return fmt.Errorf("creating a link: %v: %w", made.Errors, err)
	}
	c.add(made.Link)
	c.saw(versionOf{made.Link.ID, 1})
	return nil
}

// updateSome updates links by one call, in any order.
func (c *changers) updateSome(w tenant) error {
	var changes []map[string]any
	for _, linkID := range c.some(2) {
		changes = append(changes, map[string]any{"id": linkID, "url": fmt.Sprint("https://example.com/", rand.Int64())})
	}
	var got struct {
		UpdateLinks struct {
			Results []struct {
				Link *struct {
					ID      string
					Version int
				}
			}
		}
	}
	err := w.try(&got,
		`mutation ($in: UpdateLinksInput!) { updateLinks(input: $in) { results { link { id version } } } }`,
		map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": changes}})
	for _, result := range got.UpdateLinks.Results {
		if result.Link != nil {
			c.saw(versionOf{result.Link.ID, result.Link.Version})
		}
	}
	return err
}

func (c *changers) saw(v versionOf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, v)
}

// compareLogs compares the events in the audit log, in the feed of each node and of the webhook
// with the changes that have had a response. It returns those of the feed.
func (c *changers) compareLogs(t *testing.T, b backend) (feed []string) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	logged := c.loggedChanges(t)
	polltest.Until(t, "the feed has all events", func() bool {
		feed = c.feed(t, "")
		return len(feed) >= len(logged)
	})
	if diff := cmp.Diff(feed, c.onServer(c.nodes[1]).feed(t, "")); diff != "" {
		t.Errorf("(-feed of one node +feed of another):\n%s", diff)
	}
	slices.Sort(logged)
	if diff := cmp.Diff(logged, slices.Sorted(slices.Values(feed))); diff != "" {
		t.Errorf("(-audit log +feed):\n%s", diff)
	}
	polltest.Until(t, "the webhook has received all events", func() bool {
		hasten(t, d)
		return len(c.receiver.ids()) >= len(feed)
	})
	var events []struct {
		ID string
		versionOf
	}
	must.NoError(t, d.NewSelect().Table("audit_events").Column("id", "target_id", "version").
		Where("version IS NOT NULL").
		Scan(db.AsSystem(t.Context()), &events))
	versions := map[string]versionOf{}
	for _, e := range events {
		versions[e.ID] = e.versionOf
	}
	c.receiver.mu.Lock()
	defer c.receiver.mu.Unlock()
	for name, ids := range map[string][]string{"feed": feed, "webhook": c.receiver.order} {
		last := map[string]int{}
		for _, eventID := range ids {
			v := versions[eventID]
			if last[v.TargetID]++; v.Version != last[v.TargetID] {
				t.Errorf("event %d of %s in the order of the %s has version %d", last[v.TargetID], v.TargetID, name,
					v.Version)
			}
		}
		for _, v := range c.seen {
			if v.Version > last[v.TargetID] {
				t.Errorf("a response has named %+v, and the last version of the %s is %d", v, name, last[v.TargetID])
			}
		}
	}
	return feed
}

// expectRedirects waits until each link redirects to its URL at all nodes.
func (c *changers) expectRedirects(t *testing.T) {
	t.Helper()
	for _, linkID := range c.links {
		var got struct{ Link linkView }
		c.must(t, &got, `query ($id: ID!) { link(by: {id: $id}) `+linkFields+` }`, map[string]any{"id": linkID})
		for _, node := range c.nodes {
			location := ""
			polltest.Within(t, 10*time.Second, "redirects follow the changes", func() bool {
				a, err := node.get(got.Link.path(c.nodes[0]))
				if err == nil && a.status == http.StatusFound {
					location = a.header.Get("Location")
				}
				return location == got.Link.OriginalURL
			})
		}
	}
}
