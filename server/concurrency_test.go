package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
)

// spellings are ways to write one URL.
var spellings = []string{
	"https://example.com/same/page?a=1&b=2",
	"HTTPS://EXAMPLE.COM/same/page?a=1&b=2",
	"https://example.com:443/same/page/?b=2&a=1",
	"https://example.com//same///page?a=1&b=2#part",
	"https://example.com/same/./x/../page?&a=1&&b=2&",
	" \thttps://example.com./%73ame/page?a=1&b=2\n",
}

func TestCreateLink_IsIdempotentConcurrently(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const callers = 200
		nodes := startAll(t, b, b.nodes) // on an empty database: one migrates, the other waits
		who := nodes[0].tenant(t, "eager")
		got := make([]createLinkPayload, callers)
		gate := make(chan struct{})
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				<-gate
				var err error
				got[i], err = who.onServer(nodes[i%len(nodes)]).createAgain(spellings[i/len(nodes)%len(spellings)])
				if err != nil || len(got[i].Errors) > 0 {
					t.Errorf("request %d: %+v: %v", i, got[i].Errors, err)
				}
			})
		}
		close(gate)
		all.Wait()

		ids, created := map[string]int{}, 0
		for _, one := range got {
			ids[one.Link.ID+" "+one.Link.Code+" "+one.Link.ShortURL]++
			if one.Created {
				created++
			}
		}
		if len(ids) != 1 || created != 1 {
			t.Errorf("created is true %d times, links %v; want one", created, ids)
		}
		if rows := countLinks(t, b); rows != 1 {
			t.Errorf("%d rows, want 1", rows)
		}
		if used := who.linksUsed(t); used != 1 {
			t.Errorf("%d links used, want 1", used)
		}
	})
}

// TestCreateLink_CreatesManyConcurrently requests each of many URLs several times.
func TestCreateLink_CreatesManyConcurrently(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const urls, askers = 20, 10
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "busy")
		var mu sync.Mutex
		created := map[string]int{}
		var all sync.WaitGroup
		for i := range urls * askers {
			all.Go(func() {
				u := fmt.Sprintf("https://example.com/%d", i/askers)
				got, err := who.onServer(nodes[i%len(nodes)]).createAgain(u + strings.Repeat("/", i%2))
				if err != nil || len(got.Errors) > 0 {
					t.Errorf("%s: %+v: %v", u, got.Errors, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if got.Created {
					created[u]++
				}
			})
		}
		all.Wait()
		for u, n := range created {
			if n != 1 {
				t.Errorf("%s was created %d times", u, n)
			}
		}
		if rows := countLinks(t, b); rows != urls || len(created) != urls || who.linksUsed(t) != urls {
			t.Errorf("%d rows, %d created, %d used; want %d", rows, len(created), who.linksUsed(t), urls)
		}
	})
}

// countLinks counts the rows in the database.
func countLinks(t *testing.T, b backend) int {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	n := must.Value(d.NewSelect().Table("links").Count(db.AsSystem(t.Context())))(t)
	return int(n)
}

// TestUpsertLink_CreatesOnceConcurrently upserts one external id at all nodes at the same time: one call creates the
// link, with one event, and the others find it as it is.
func TestUpsertLink_CreatesOnceConcurrently(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const callers = 200
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "importers")
		upsert := func(node *server, externalID string) (outcome string) {
			var got struct {
				UpsertLink struct {
					Outcome string
					Errors  []userError
				}
			}
			in := map[string]any{"workspaceId": who.workspaceID, "link": map[string]any{
				"externalId": externalID, "url": "https://example.com/same", "title": "Same",
			}}
			err := who.onServer(node).tryAgain(&got, `mutation ($in: UpsertLinkInput!) {
				upsertLink(input: $in) { outcome errors { code message } } }`, map[string]any{"in": in})
			if err != nil || len(got.UpsertLink.Errors) > 0 {
				t.Errorf("%+v: %v", got.UpsertLink.Errors, err)
			}
			return got.UpsertLink.Outcome
		}
		outcomes := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() { outcomes[i] = upsert(nodes[i%len(nodes)], "order-1") })
		}
		all.Wait()
		counts := map[string]int{}
		for _, outcome := range outcomes {
			counts[outcome]++
		}
		if diff := cmp.Diff(map[string]int{"CREATED": 1, "UNCHANGED": callers - 1}, counts); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if got := upsert(nodes[0], "order-2"); got != "CREATED" {
			t.Errorf("another id with the same URL: %s", got)
		}
		if rows := countLinks(t, b); rows != 2 {
			t.Errorf("%d rows, want 2", rows)
		}
		polltest.Until(t, "the feed has the events of both links", func() bool { return len(who.feed(t, "")) >= 2 })
		if events := who.feed(t, ""); len(events) != 2 {
			t.Errorf("%d events, want one of each link", len(events))
		}
	})
}
