package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/polltest"
)

// historyChanges is the number of random changes: 10,000 in the field, fewer in the suite.
var historyChanges = sized("LINKFORGE_TEST_HISTORY_CHANGES", 400)

// historyKills is how often a node is killed meanwhile.
var historyKills = sized("LINKFORGE_TEST_HISTORY_KILLS", 2)

// editor makes random changes of the links of a workspace through all nodes.
type editor struct {
	tenant
	nodes []*server
	env   []string

	mu    sync.Mutex
	links []string
}

// randomChanges are the ways in which links change, each with its weight.
var randomChanges = []struct {
	weight int
	change func(e *editor, w tenant) error
}{
	{6, (*editor).createOne}, {2, (*editor).createMany}, {2, (*editor).claimOne}, {12, (*editor).updateOne},
	{4, (*editor).updateMany}, {4, (*editor).deleteOne}, {2, (*editor).deleteMany}, {6, (*editor).restoreOne},
	{6, (*editor).revertOne},
}

// TestHistory_AgreesAfterKills changes links at random by all callers on all nodes, which are killed
// meanwhile: links, versions and events agree, and feed and audit log have the same events.
func TestHistory_AgreesAfterKills(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		e := &editor{tenant: nodes[0].tenant(t, "historian"), nodes: nodes, env: nodes[0].env}
		e.change(t, b)
		for _, node := range nodes {
			if err := node.process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-node.exited
			node.again()
		}
		report, problems, status := command(t, e.env, "", "links", "verify")
		if status != 0 || !strings.HasSuffix(report, " links, 0 differences\n") {
			t.Errorf("links verify: status %d: %s%s", status, report, problems)
		}
		t.Log(strings.TrimSpace(report))
		logged := e.auditLog(t)
		var feed []string
		polltest.Until(t, "the feed has all events", func() bool {
			feed = e.feed(t)
			return len(feed) >= len(logged)
		})
		inOrder := slices.Clone(feed)
		slices.Sort(feed)
		slices.Sort(logged)
		if diff := cmp.Diff(logged, feed); diff != "" {
			t.Errorf("(-audit log +feed):\n%s", diff)
		}
		for _, node := range nodes {
			other := &editor{tenant: e.onServer(node)}
			if diff := cmp.Diff(inOrder, other.feed(t)); diff != "" {
				t.Errorf("(-feed of one node +feed of another):\n%s", diff)
			}
		}
	})
}

// change makes the changes, and kills nodes.
func (e *editor) change(t *testing.T, b backend) {
	t.Helper()
	if err := e.createMany(e.tenant); err != nil {
		t.Fatal(err)
	}
	var done, failed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for done.Add(1) <= int64(historyChanges) {
				if err := e.changeAtRandom(); err != nil {
					failed.Add(1)
					_ = poll.Wait(t.Context(), pollEvery) // a node is restarting
				}
			}
		})
	}
	for n := range historyKills {
		polltest.Until(t, "it is time to kill a node", func() bool {
			return done.Load() > int64(historyChanges*(n+1)/(historyKills+1))
		})
		node := e.nodes[n%len(e.nodes)]
		if err := node.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-node.exited
		node.again()
		e.operate(t, b)
	}
	all.Wait()
	if failed.Load() > int64(historyChanges/4) {
		t.Errorf("%d of %d changes failed", failed.Load(), historyChanges)
	}
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
			return c.change(e, e.onServer(e.nodes[rand.IntN(len(e.nodes))]))
		}
	}
	panic("unreachable")
}

// operate changes links as the operator and as the clean-up of old links.
func (e *editor) operate(t *testing.T, b backend) {
	t.Helper()
	one := e.some(1)[0]
	execute(t, b, "UPDATE links SET ended_at = ? WHERE id IN (SELECT id FROM links WHERE deleted_at IS NOT NULL LIMIT 2)",
		db.Instant(time.Now().Add(-400*24*time.Hour)))
	for _, args := range [][]string{
		{"links", "disable", one}, {"block", "disable", "disabled.example"}, {"jobs", "run", "clean-up"},
		{"block", "enable", "disabled.example"}, {"links", "enable", one},
	} {
		if out, problems, status := command(t, e.env, "", args...); status != 0 && !strings.Contains(problems, "NOT_FOUND") {
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

func (e *editor) createOne(w tenant) error {
	made, err := w.create(randomURL(), "strategy", []string{"DETERMINISTIC", "RANDOM"}[rand.IntN(2)])
	e.add(made.Link)
	return err
}

func (e *editor) createMany(w tenant) error {
	links := []map[string]any{}
	for range 5 {
		links = append(links, map[string]any{"url": randomURL(), "title": fmt.Sprint(rand.IntN(3))})
	}
	var got struct {
		CreateLinks struct{ Results []struct{ Link linkView } }
	}
	err := w.try(&got, `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { link { id } } } }`,
		map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": links}})
	for _, result := range got.CreateLinks.Results {
		e.add(result.Link)
	}
	return err
}

func (e *editor) claimOne(w tenant) error {
	var made struct {
		CreateAnonymousLink struct{ ClaimToken string }
	}
	err := w.try(&made, `mutation ($url: String!) { createAnonymousLink(input: {url: $url}) { claimToken } }`,
		map[string]any{"url": randomURL()})
	if err != nil {
		return err
	}
	var got struct {
		ClaimLinks struct{ Results []struct{ Link linkView } }
	}
	err = w.try(&got, `mutation ($w: ID!, $token: String!) {
		claimLinks(input: {workspaceId: $w, claimTokens: [$token]}) { results { link { id } } } }`,
		map[string]any{"w": w.workspaceID, "token": made.CreateAnonymousLink.ClaimToken})
	for _, result := range got.ClaimLinks.Results {
		e.add(result.Link)
	}
	return err
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

func (e *editor) updateOne(w tenant) error {
	fields := e.fields()
	fields["id"] = e.some(1)[0]
	return w.mutate("updateLink", "UpdateLinkInput", fields)
}

func (e *editor) updateMany(w tenant) error {
	changes := []map[string]any{}
	for _, id := range e.some(5) {
		fields := e.fields()
		fields["id"] = id
		changes = append(changes, fields)
	}
	return w.mutate("updateLinks", "UpdateLinksInput", map[string]any{"workspaceId": w.workspaceID, "links": changes})
}

func (e *editor) deleteOne(w tenant) error {
	return w.mutate("deleteLink", "DeleteLinkInput", map[string]any{"id": e.some(1)[0]})
}

func (e *editor) deleteMany(w tenant) error {
	return w.mutate("deleteLinks", "DeleteLinksInput", map[string]any{"workspaceId": w.workspaceID, "ids": e.some(3)})
}

func (e *editor) restoreOne(w tenant) error {
	return w.mutate("restoreLink", "RestoreLinkInput", map[string]any{"id": e.some(1)[0]})
}

func (e *editor) revertOne(w tenant) error {
	return w.mutate("revertLink", "RevertLinkInput", map[string]any{"id": e.some(1)[0], "version": 1 + rand.IntN(3)})
}

// mutate calls a mutation. User errors are none of its errors.
func (w tenant) mutate(name, input string, in map[string]any) error {
	var got map[string]any
	return w.try(&got, fmt.Sprintf(`mutation ($in: %s!) { %s(input: $in) { errors { code message field } } }`, input, name),
		map[string]any{"in": in})
}

// eventPage is a page of the feed or the audit log.
type eventPage struct {
	Edges    []struct{ Node struct{ ID, Action string } }
	PageInfo struct {
		HasNextPage bool
		EndCursor   string
	}
}

// feed returns the ids of all events of the feed.
func (e *editor) feed(t *testing.T) (ids []string) {
	t.Helper()
	return e.pages(t, "events", "id")
}

// auditLog returns the ids of all events about links in the audit log.
func (e *editor) auditLog(t *testing.T) (ids []string) {
	t.Helper()
	return e.pages(t, "auditLog", "id action")
}

func (e *editor) pages(t *testing.T, list, fields string) (ids []string) {
	t.Helper()
	query := fmt.Sprintf(`query ($w: ID!, $after: String) { workspace(by: {id: $w}) { list: %s(first: 100, after: $after) {
		edges { node { %s } } pageInfo { hasNextPage endCursor } } } }`, list, fields)
	for after := any(nil); ; {
		var got struct{ Workspace struct{ List eventPage } }
		e.must(t, &got, query, map[string]any{"w": e.workspaceID, "after": after})
		for _, edge := range got.Workspace.List.Edges {
			if edge.Node.Action == "" || strings.HasPrefix(edge.Node.Action, "LINK_") {
				ids = append(ids, edge.Node.ID)
			}
		}
		if !got.Workspace.List.PageInfo.HasNextPage {
			return ids
		}
		after = got.Workspace.List.PageInfo.EndCursor
	}
}
