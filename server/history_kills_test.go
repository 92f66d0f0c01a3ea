package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// historyChanges is the number of random changes.
var historyChanges = suitetest.Size(100, 300)

// historyKills is how often a node is killed meanwhile.
var historyKills = suitetest.Size(1, 2)

// editor makes random changes of the links of a workspace through all nodes.
type editor struct {
	tenant
	nodes []*server
	env   []string

	mu         sync.Mutex
	links      []string
	operations []string // the ids of bulk calls
}

// randomChange is a mutation, what it selects besides errors, and a random input; none when there is nothing to change.
type randomChange struct {
	weight          int
	name, selection string
	input           func(e *editor, w tenant) map[string]any
}

var randomChanges = []randomChange{
	{2, "createLinks", "operationId results { link { id } }", func(_ *editor, w tenant) map[string]any {
		links := []map[string]any{}
		for range 5 {
			links = append(links, map[string]any{"url": randomURL(), "title": fmt.Sprint(rand.IntN(3))})
		}
		return map[string]any{"workspaceId": w.workspaceID, "links": links}
	}},
	{6, "createLink", "link { id }", func(_ *editor, w tenant) map[string]any {
		return map[string]any{"workspaceId": w.workspaceID, "url": randomURL(),
			"strategy": []string{"DETERMINISTIC", "RANDOM"}[rand.IntN(2)]}
	}},
	{2, "claimLinks", "results { link { id } }", (*editor).claim},
	{12, "updateLink", "", func(e *editor, _ tenant) map[string]any { return e.update() }},
	{4, "updateLinks", "operationId", func(e *editor, w tenant) map[string]any {
		changes := []map[string]any{}
		for range 5 {
			changes = append(changes, e.update())
		}
		return map[string]any{"workspaceId": w.workspaceID, "links": changes}
	}},
	{4, "deleteLink", "", func(e *editor, _ tenant) map[string]any { return map[string]any{"id": e.some(1)[0]} }},
	{2, "deleteLinks", "operationId", func(e *editor, w tenant) map[string]any {
		return map[string]any{"workspaceId": w.workspaceID, "ids": e.some(3)}
	}},
	{6, "restoreLink", "", func(e *editor, _ tenant) map[string]any { return map[string]any{"id": e.some(1)[0]} }},
	{6, "revertLink", "", func(e *editor, _ tenant) map[string]any {
		return map[string]any{"id": e.some(1)[0], "version": 1 + rand.IntN(3)}
	}},
	{2, "revertOperation", "", (*editor).undo},
	{6, "scheduleLinkChange", "", func(e *editor, _ tenant) map[string]any { // in a few seconds
		at := time.Now().Add(5*time.Second + time.Duration(rand.IntN(2000))*time.Millisecond)
		change := map[string]any{"title": fmt.Sprint("Scheduled ", rand.IntN(3)), "tags": []string{"scheduled"}}
		return map[string]any{"linkId": e.some(1)[0], "at": at, "change": change}
	}},
	{6, "upsertLink", "", func(e *editor, w tenant) map[string]any {
		return map[string]any{"workspaceId": w.workspaceID, "link": e.upsert(rand.IntN(20))}
	}},
	{2, "upsertLinks", "operationId", func(e *editor, w tenant) map[string]any {
		first := rand.IntN(20)
		return map[string]any{"workspaceId": w.workspaceID,
			"links": []map[string]any{e.upsert(first), e.upsert(first + 1)}}
	}},
}

// TestFault_HistoryAgreesAfterKills changes links at random by all callers on all nodes, which are killed
// meanwhile: links, versions and events agree, and feed, subscription and audit log have the same events.
func TestFault_HistoryAgreesAfterKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.inProcesses(), b.nodes)
		e := &editor{tenant: nodes[0].tenant(t, "historian"), nodes: nodes, env: nodes[0].env}
		first := e.shorten(t, "https://example.com/first").Link
		e.add(first)
		polltest.Until(t, "the feed has an event", func() bool { return len(e.feed(t, "")) == 1 })
		start := e.feed(t, "")
		following, stop := context.WithCancel(t.Context())
		received := make(chan string, 10*historyChanges)
		var listening sync.WaitGroup
		defer listening.Wait()
		defer stop()
		listening.Go(func() { e.follow(following, start[0], received) })

		e.change(t, b)
		polltest.Within(t, time.Minute, "all scheduled changes are written", func() bool {
			return numberOf(t, b, "SELECT count(*) FROM scheduled_changes") == 0
		})
		for _, node := range nodes {
			node.killAndRestart()
		}
		report, problems, status := command(t, e.env, "", "links", "verify")
		if status != 0 || !strings.HasSuffix(report, " links, 0 differences\n") {
			t.Errorf("links verify: status %d: %s%s", status, report, problems)
		}
		t.Log(strings.TrimSpace(report))
		logged := e.loggedChanges(t)
		var feed []string
		polltest.Until(t, "the feed has all events", func() bool {
			feed = e.feed(t, "")
			return len(feed) >= len(logged)
		})
		subscribed := start
		for len(subscribed) < len(feed) {
			subscribed = append(subscribed, <-received)
		}
		if diff := cmp.Diff(feed, subscribed); diff != "" {
			t.Errorf("(-feed +subscription):\n%s", diff)
		}
		for _, node := range nodes {
			if diff := cmp.Diff(feed, e.onServer(node).feed(t, "")); diff != "" {
				t.Errorf("(-feed of one node +feed of another):\n%s", diff)
			}
		}
		slices.Sort(feed)
		slices.Sort(logged)
		if diff := cmp.Diff(logged, feed); diff != "" {
			t.Errorf("(-audit log +feed):\n%s", diff)
		}
		t.Logf("%d events", len(feed))
	})
}

// follow sends the ids of events to received, and subscribes again at another node whenever a subscription
// ends.
func (e *editor) follow(ctx context.Context, last string, received chan<- string) {
	for n := 0; ctx.Err() == nil; n++ {
		node := e.nodes[n%len(e.nodes)]
		l, err := listenToEvents(ctx, e.onServer(node).client, eventCommitted, watching(e.workspaceID, "", last))
		if err != nil {
			_ = poll.Wait(ctx, pollEvery) // the node is restarting
			continue
		}
		for {
			event, err := l.next()
			if err != nil || event.complete || len(event.Errors) > 0 {
				break
			}
			last = event.id()
			received <- last
		}
		l.close()
	}
}

// change makes the changes, and kills nodes.
func (e *editor) change(t *testing.T, b backend) {
	t.Helper()
	must.NoError(t, e.apply(e.tenant, randomChanges[0]))
	var done atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for done.Load() < int64(historyChanges) {
				if err := e.changeAtRandom(); err == nil {
					done.Add(1)
				} else if poll.Wait(t.Context(), pollEvery) != nil { // a node is restarting
					return
				}
			}
		})
	}
	for n := range historyKills {
		polltest.Until(t, "it is time to kill a node", func() bool {
			return done.Load() >= int64(historyChanges*(n+1)/(historyKills+1))
		})
		e.nodes[n%len(e.nodes)].killAndRestart()
		e.operate(t, b)
	}
	all.Wait()
}

// changeAtRandom makes one change on one node. It returns an error if there is no response, or a
// request error.
func (e *editor) changeAtRandom() error {
	total := 0
	for _, c := range randomChanges {
		total += c.weight
	}
	n := rand.IntN(total)
	for _, c := range randomChanges {
		if n -= c.weight; n < 0 {
			return e.apply(e.onServer(e.nodes[rand.IntN(len(e.nodes))]), c)
		}
	}
	panic("unreachable")
}

// apply makes a change, and keeps the id of the operation for undo. User errors are none of its errors.
func (e *editor) apply(w tenant, c randomChange) error {
	in := c.input(e, w)
	if in == nil {
		return nil
	}
	var got struct {
		Payload struct {
			OperationID string
			Link        linkView
			Results     []struct{ Link linkView }
		}
	}
	err := w.try(&got, fmt.Sprintf(`mutation ($in: %s%sInput!) { payload: %s(input: $in) { errors { code } %s } }`,
		strings.ToUpper(c.name[:1]), c.name[1:], c.name, c.selection), map[string]any{"in": in})
	e.add(got.Payload.Link)
	for _, result := range got.Payload.Results {
		e.add(result.Link)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if got.Payload.OperationID != "" {
		e.operations = append(e.operations, got.Payload.OperationID)
	}
	return err
}

// operate changes links as the operator and as the clean-up of old links.
func (e *editor) operate(t *testing.T, b backend) {
	t.Helper()
	one := e.some(1)[0]
	execute(t, b, "UPDATE links SET ended_at = ? WHERE id IN (SELECT id FROM links WHERE deleted_at IS NOT NULL "+
		"LIMIT 2)",
		db.Instant(time.Now().Add(-400*24*time.Hour)))
	for _, args := range [][]string{
		{"links", "disable", one}, {"block", "disable", "disabled.example"}, {"jobs", "run", "clean-up"},
		{"block", "enable", "disabled.example"}, {"links", "enable", one},
	} {
		if out, problems, status := command(t, e.env, "", args...); status != 0 &&
			!strings.Contains(problems, "NOT_FOUND") {
			t.Logf("%q: %s%s", args, out, problems)
		}
	}
}

// some returns random links.
func (e *editor) some(n int) (ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range n {
		ids = append(ids, e.links[rand.IntN(len(e.links))])
	}
	return ids
}

func (e *editor) add(links ...linkView) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range links {
		if l.ID != "" {
			e.links = append(e.links, l.ID)
		}
	}
}

// randomURL returns one of a few URLs, so that creations meet existing and deleted links.
func randomURL() string {
	host := "example.com"
	if rand.IntN(10) == 0 {
		host = "disabled.example"
	}
	return fmt.Sprintf("https://%s/%d", host, rand.IntN(50))
}

// claim creates an anonymous link for a claim.
func (e *editor) claim(w tenant) map[string]any {
	var made struct {
		CreateAnonymousLink struct{ ClaimToken string }
	}
	err := w.try(&made, `mutation ($url: String!) { createAnonymousLink(input: {url: $url}) { claimToken } }`,
		map[string]any{"url": randomURL()})
	if err != nil {
		return nil
	}
	return map[string]any{"workspaceId": w.workspaceID, "claimTokens": []string{made.CreateAnonymousLink.ClaimToken}}
}

// fields returns random fields of an update.
func (e *editor) fields() map[string]any {
	fields := map[string]any{}
	for range 1 + rand.IntN(3) {
		switch rand.IntN(6) {
		case 0:
			fields["title"] = fmt.Sprint("Title ", rand.IntN(3))
		case 1:
			fields["note"] = nil
		case 2:
			fields["tags"] = []string{fmt.Sprint("tag ", rand.IntN(3))}
		case 3:
			fields["archived"] = rand.IntN(2) == 0
		case 4:
			fields["maxClicks"] = 1000 + rand.IntN(2)
		case 5:
			fields["routing"] = map[string]any{"endedUrl": randomURL()}
		}
	}
	return fields
}

// update returns random changes of a link.
func (e *editor) update() map[string]any {
	fields := e.fields()
	fields["id"] = e.some(1)[0]
	return fields
}

// upsert returns a link with one of a few external ids.
func (e *editor) upsert(n int) map[string]any {
	fields := e.fields()
	fields["externalId"], fields["url"] = fmt.Sprint("order ", n), randomURL()
	return fields
}

// undo returns one of the last operations, perhaps for the second time.
func (e *editor) undo(w tenant) map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.operations[max(0, len(e.operations)-3):]
	if len(last) == 0 {
		return nil
	}
	return map[string]any{"workspaceId": w.workspaceID, "operationId": last[rand.IntN(len(last))]}
}
