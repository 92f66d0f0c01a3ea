package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// loggedEvent has the fields of an Event that the tests read.
type loggedEvent struct {
	ID, Type, SubjectID string

	At      time.Time
	Version *int
	Link    *struct{ Version int }
}

const eventCommitted = `subscription ($w: ID!, $t: [EventType!], $l: ID, $a: ID) {
	eventCommitted(workspaceId: $w, types: $t, linkId: $l, after: $a) { id type at subjectId version link { version
	} } }`

// listenToLog subscribes to events of the tenant's workspace; the link and the cursor may be empty.
func (w tenant) listenToLog(t *testing.T, way, linkID, after string) *listener {
	t.Helper()
	return w.client.listen(t, way, eventCommitted, watching(w.workspaceID, linkID, after))
}

// logged returns the events of a list of the workspace, events or auditLog, after a cursor, which may be empty.
func (w tenant) logged(t *testing.T, list, after string) (all []loggedEvent) {
	t.Helper()
	for hasNext := true; hasNext; {
		var got struct {
			Workspace struct {
				List struct {
					Nodes    []loggedEvent
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
				}
			}
		}
		variables := map[string]any{"w": w.workspaceID}
		if after != "" {
			variables["a"] = after
		}
		w.must(t, &got, `query ($w: ID!, $a: String) { workspace(by: {id: $w}) { list: `+list+`(first: 100, after: $a) {
			nodes { id type } pageInfo { hasNextPage endCursor } } } }`, variables)
		page := got.Workspace.List
		all, after, hasNext = append(all, page.Nodes...), page.PageInfo.EndCursor, page.PageInfo.HasNextPage
	}
	return all
}

// feed returns the ids of all events of the tenant's feed after a cursor, which may be empty.
func (w tenant) feed(t *testing.T, after string) (ids []string) {
	t.Helper()
	for _, e := range w.logged(t, "events", after) {
		ids = append(ids, e.ID)
	}
	return ids
}

// loggedChanges returns the ids of all changes of links in the audit log, in the order of ids.
func (w tenant) loggedChanges(t *testing.T) (ids []string) {
	t.Helper()
	for _, e := range w.logged(t, "auditLog", "") {
		if strings.HasPrefix(e.Type, "LINK_") && !strings.HasPrefix(e.Type, "LINK_CHANGE_") {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestEventCommitted_AgreesWithFeedAndAuditLog: while clients change links at all nodes, and transactions
// stay open, subscribers at all nodes receive each event of their workspace once, in the order of the feed.
// This holds for subscribers that reconnect repeatedly at other nodes.
func TestEventCommitted_AgreesWithFeedAndAuditLog(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const writers, perLink = 4, 4
		links := suitetest.Size(8, 20)
		all := writers * links * perLink
		nodes := startAll(t, b, b.nodes)
		who, other := nodes[0].tenant(t, "followed"), nodes[0].tenant(t, "unseen")
		known := who.shorten(t, "https://example.com/first").Link
		var began string
		polltest.Until(t, "the first event is in the feed", func() bool {
			ids := who.feed(t, "")
			if len(ids) == 1 {
				began = ids[0]
			}
			return began != ""
		})
		var mu sync.Mutex
		received := map[string][]string{}
		keep := func(name string, ids []string) {
			mu.Lock()
			defer mu.Unlock()
			received[name] = ids
		}
		var listening, changing sync.WaitGroup
		for i, node := range nodes {
			for _, way := range slices.Sorted(maps.Keys(ways)) {
				l := who.onServer(node).listenToLog(t, way, "", began)
				listening.Go(func() { keep(fmt.Sprint(way, " at ", i), l.receive(t, all)) })
			}
		}
		listening.Go(func() { // a subscriber whose connection is cut
			var ids []string
			for last, i := began, 0; len(ids) < all && !t.Failed(); i++ {
				l := who.onServer(nodes[i%len(nodes)]).listenToLog(t, "events", "", last)
				ids = append(ids, l.receive(t, min(1+all/10, all-len(ids)))...)
				l.close()
				last = ids[len(ids)-1]
			}
			keep("again and again", ids)
		})
		silent, ofKnown := who.listenToLog(t, "socket", known.ID, ""), make(chan string, 1)
		go func() { // a client that does not read answers no pings
			e, err := silent.next()
			if err != nil || e.Data == nil {
				ofKnown <- fmt.Sprintf("%+v: %v", e, err)
				return
			}
			ofKnown <- e.Data.EventCommitted.Type + " of " + e.Data.EventCommitted.SubjectID
		}()
		holdTransactions(t, b)
		for i := range writers {
			at := who.onServer(nodes[i%len(nodes)])
			changing.Go(func() {
				for n := range links {
					l := at.shorten(t, fmt.Sprintf("https://example.com/%d/%d", i, n)).Link
					if _, err := other.create(fmt.Sprintf("https://example.com/%d/%d", i, n)); err != nil {
						t.Error(err)
					}
					at.must(t, new(any), `mutation ($id: ID!) {
						one: updateLink(input: {id: $id, title: "one"}) { errors { code } }
						two: deleteLink(input: {id: $id}) { errors { code } }
						three: restoreLink(input: {id: $id}) { errors { code } } }`, map[string]any{"id": l.ID})
				}
			})
		}
		changing.Wait()
		listening.Wait()

		var order []string
		polltest.Until(t, "the feed has all events", func() bool {
			order = who.feed(t, began)
			return len(order) >= all
		})
		same(t, "the feed", slices.Sorted(slices.Values(append(order, began))), who.loggedChanges(t))
		for name, ids := range received {
			same(t, name, ids, order)
		}
		deleted := who.remove(t, known.ID)
		select {
		case one := <-ofKnown:
			if one != "LINK_DELETED of "+deleted.ID {
				t.Errorf("the event of one link: %s", one)
			}
		case <-time.After(patience):
			t.Error("the event of one link has not arrived")
		}
	})
}

// TestEventCommitted_HasTheLinkAsItIsNow: at least as new as the event, although events follow quickly.
func TestEventCommitted_HasTheLinkAsItIsNow(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		node := start(t, b)
		who := node.tenant(t, "current")
		l := who.listenToLog(t, "events", "", "")
		link := who.shorten(t, "https://example.com/").Link
		for i := range 10 {
			who.must(t, new(any), `mutation ($id: ID!, $t: String!) { updateLink(input: {id: $id, title: $t}) { errors {
				code } } }`, map[string]any{"id": link.ID, "t": fmt.Sprint(i)})
			if i == 0 {
				l.receive(t, 1)
			}
		}
		for version := 2; version <= 11; version++ {
			e, err := l.next()
			if err != nil || e.Data == nil {
				t.Fatalf("%+v: %v", e, err)
			}
			got := e.Data.EventCommitted
			if *got.Version != version || got.Link == nil || got.Link.Version < version {
				t.Errorf("got %+v with version %d, want version %d", got, *got.Version, version)
			}
		}
	})
}

// TestEventCommitted_FollowsPermissions: events of domains need DOMAINS_READ, and none are those of another workspace.
func TestEventCommitted_FollowsPermissions(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		node := start(t, b)
		who, other := node.tenant(t, "permitted"), node.tenant(t, "others")
		noDomains, _ := who.key(t, "LINKS_READ")
		domains, _ := who.key(t, "LINKS_READ", "DOMAINS_READ")
		noLinks, _ := who.key(t, "STATS_READ")
		theirs := other.shorten(t, "https://example.com/").Link
		all := domains.listen(t, "events", eventCommitted, watching(who.workspaceID, "", ""))
		some := noDomains.listen(t, "socket", eventCommitted, watching(who.workspaceID, "", ""))
		about := who.listenToLog(t, "events", theirs.ID, "") // it has no events, as an unknown link
		receives := func(l *listener, want, subjectID string) {
			t.Helper()
			if e, err := l.next(); err != nil || e.Data == nil || e.Data.EventCommitted.Type != want ||
				e.Data.EventCommitted.SubjectID != subjectID {
				t.Errorf("got %+v, want %s of %s: %v", e, want, subjectID, err)
			}
		}
		domainID := who.verifiedDomain(t, b, "events.example.net")
		execute(t, b, "UPDATE domains SET verified_at = NULL WHERE id = ?", domainID)
		logEvent(t, b, who.workspaceID, "DOMAIN_LOST", domainID)
		other.remove(t, theirs.ID)
		created := who.shorten(t, "https://example.com/").Link
		receives(all, "DOMAIN_LOST", domainID)
		receives(all, "LINK_CREATED", created.ID)
		receives(some, "LINK_CREATED", created.ID)
		for way := range ways {
			noLinks.listen(t, way, eventCommitted, watching(who.workspaceID, "", "")).receiveEnd(t, "FORBIDDEN")
		}
		a, err := who.run(`query ($w: ID!) { workspace(by: {id: $w}) { events(types: [LINK_CLICKED]) { head } } }`,
			map[string]any{"w": who.workspaceID})
		if err != nil || a.code() != "INVALID_INPUT" {
			t.Errorf("clicks in the feed: %s: %v", a.body, err)
		}
		about.close()
		if e, err := about.next(); err == nil {
			t.Errorf("received an event of another workspace: %+v", e)
		}
	})
}

// logEvent writes an event of the server.
func logEvent(t *testing.T, b backend, workspaceID, action, targetID string) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	event := audit.New(workspaceID, "", audit.Action(action), targetID, nil, time.Now())
	must.NoError(t,
		d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return audit.Write(ctx, tx, event)
		}))
}
