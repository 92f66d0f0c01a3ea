package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// changes is how many changes are awaited, watchers how many at a time.
	changes  = 10_000
	watchers = 16
	// lookEvery is the time between two requests of a watcher.
	lookEvery = 10 * time.Millisecond
)

// reportVisible changes links at one node, and reports how long another node that has cached them
// responds as before.
func reportVisible(r *rig.Run) {
	here := start(r, "here", r.Server)
	there := r.Serve("there", r.Server, r.ServicesEnv()...)
	other := here.tenant.At(there.Address)
	var mu sync.Mutex
	var took []time.Duration
	rig.InBatches(changes, changes/watchers, watchers, func(from, to int) {
		link := here.links[from/(changes/watchers)].Link
		for i := from; i < to; i++ {
			destination := fmt.Sprintf("https://www.example.com/visible/%d", i)
			rig.Check(here.tenant.Do(&struct{}{},
				`mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { link { id } errors { code message } } }`,
				map[string]any{"in": map[string]any{"id": link.ID, "url": destination}}))
			changed := time.Now()
			for {
				status, location, err := other.Follow(http.MethodGet, link.Path())
				rig.Check(err)
				if status == http.StatusFound && location == destination {
					break
				}
				r.Pause(lookEvery)
			}
			mu.Lock()
			took = append(took, time.Since(changed))
			mu.Unlock()
		}
	})
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[min(int(share*float64(len(took))), len(took)-1)].Round(time.Millisecond)
	}
	fmt.Printf("\n%d changes, visible at another node after: median %s, p95 %s, p99 %s, at most %s\n", len(took),
		at(0.5), at(0.95), at(0.99), at(1))
}
