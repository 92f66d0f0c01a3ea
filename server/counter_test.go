package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

const (
	counterBatch   = 500
	counterWorkers = 2    // a node
	counterBlock   = 1000 // counters that a node allocates at once
)

// counterLinks is how many are created in two rounds.
var counterLinks = suitetest.Size(1000, 5000)

const createCounters = `mutation ($in: CreateLinksInput!) {
	createLinks(input: $in) { results { created link { code } errors { code } } errors { code } }
}`

// TestFault_CountersSurviveKills kills every node while it creates COUNTER links, restarts them, and
// creates as many again. No code is repeated, and at most the allocated blocks are missing.
func TestFault_CountersSurviveKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.inProcesses(), b.nodes, "LINKFORGE_LINK_QUOTA=1000000")
		who := nodes[0].tenant(t, "counting")

		killed := who.count(t, nodes, counterLinks/2, func() {
			for _, node := range nodes {
				node.kill()
			}
		})
		for _, node := range nodes {
			node.again()
		}
		whole := who.count(t, nodes, counterLinks, func() {})

		codes := map[string]bool{}
		for _, code := range append(killed.codes, whole.codes...) {
			if codes[code] {
				t.Fatalf("%s was given out twice", code)
			}
			codes[code] = true
		}
		if whole.unanswered > 0 {
			t.Errorf("%d calls failed after the restart", whole.unanswered)
		}
		rows, handedOut := counted(t, b)
		if most := len(codes) + killed.unanswered*counterBatch; rows < len(codes) || rows > most {
			t.Errorf("%d links, want from the %d that were answered to %d", rows, len(codes), most)
		}
		held := 2 * len(nodes) * (counterBlock + counterWorkers*counterBatch)
		if missing := handedOut - rows; missing < 0 || missing > held {
			t.Errorf("%d counters were handed out for %d links: %d are missing, the nodes held at most %d", handedOut,
				rows, missing, held)
		}
	})
}

// counting has the codes of created links, and the number of failed calls.
type counting struct {
	codes      []string
	unanswered int
}

// count creates links on all nodes until enough were answered, and then does what ends it. Workers
// whose node is gone end too.
func (w tenant) count(t *testing.T, nodes []*server, enough int, end func()) (seen counting) {
	t.Helper()
	var number atomic.Int64
	var mu sync.Mutex
	reached := sync.OnceFunc(end)
	keep := func(codes []string, err error) (goesOn bool) {
		mu.Lock()
		defer mu.Unlock()
		if seen.codes = append(seen.codes, codes...); err != nil {
			seen.unanswered++
		}
		return err == nil && len(seen.codes) < enough
	}
	var workers sync.WaitGroup
	for _, node := range nodes {
		for range counterWorkers {
			workers.Go(func() {
				for goesOn := true; goesOn; {
					goesOn = keep(w.onServer(node).createCounters(&number))
				}
				reached()
			})
		}
	}
	workers.Wait()
	return seen
}

// createCounters creates one batch and returns its codes.
func (w tenant) createCounters(number *atomic.Int64) (codes []string, err error) {
	links := make([]any, counterBatch)
	for i := range links {
		links[i] = map[string]any{"url": fmt.Sprintf("https://example.com/%d", number.Add(1)), "strategy": "COUNTER"}
	}
	var data struct {
		CreateLinks struct{ Results []createLinkPayload }
	}
	err = w.try(&data, createCounters,
		map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": links}})
	for _, r := range data.CreateLinks.Results {
		if !r.Created {
			return nil, fmt.Errorf("a link was not created: %+v", r)
		}
		codes = append(codes, r.Link.Code)
	}
	return codes, err
}

// counted is how many links there are, and how many counters have been handed out.
func counted(t *testing.T, b backend) (rows, handedOut int) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	must.NoError(t, d.NewRaw("SELECT next FROM counters WHERE name = 'code'").Scan(t.Context(), &handedOut))
	return int(numberOf(t, b, "SELECT count(*) FROM links")), handedOut
}
