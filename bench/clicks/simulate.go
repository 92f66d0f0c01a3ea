package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/route/routing"
)

const (
	// simulationGoal and simulationHeap bound a simulation of a million clicks, beside which another
	// tenant's 99th percentile grows at most by neighborGoal.
	simulationGoal = 2 * time.Second
	simulationHeap = 256 << 20
	neighborGoal   = 3.0
	simulations    = 5
)

// simulate measures simulations of a routing on a link with many clicks of the last 30 days, and
// stats of another tenant alone and beside them.
func (b *bench) simulate() {
	if *simulated == 0 {
		return
	}
	link := b.fill(*simulated)
	other := simulatedRouting()
	run := func() (took time.Duration, heap uint64) {
		s := rig.Must((&stats.Store{Clicks: b.store, Now: b.now}).Stats(b, b.members[0],
			clickstore.Subject{LinkID: link}, nil, "", clickstore.Filter{}))
		heap = b.peakOf(func() {
			began := time.Now()
			got := rig.Must(s.Simulate(b, "https://example.com/", nil, other))
			took = time.Since(began)
			if got.Visits != int64(*simulated) {
				b.Wrongf("%s: %d clicks were simulated, not %d", b.kind, got.Visits, *simulated)
			}
		})
		return took, heap
	}
	run() // warms the caches up
	var all []time.Duration
	most := uint64(0)
	for range simulations {
		took, heap := run()
		all, most = append(all, took), max(most, heap)
	}
	alone := b.neighbor(func() bool { return false })
	var running sync.WaitGroup
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		for range simulations {
			run()
		}
	})
	beside := b.neighbor(func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	})
	running.Wait()
	p50 := rig.Percentile(all, 0.5)
	rig.Table(
		[]string{fmt.Sprintf("%d clicks simulated, %d times", *simulated, simulations), "measured", "wanted"},
		[]string{"p50 ms", fmt.Sprintf("%.0f", rig.Millis(p50)), fmt.Sprint(simulationGoal.Milliseconds())},
		[]string{"heap of the process, MiB", fmt.Sprint(most >> 20), fmt.Sprint(simulationHeap >> 20)},
		[]string{"another tenant's p99 alone, ms", fmt.Sprintf("%.2f", rig.Millis(alone)), ""},
		[]string{"and beside simulations, ms", fmt.Sprintf("%.2f", rig.Millis(beside)),
			fmt.Sprintf("%.2f", neighborGoal*rig.Millis(alone))})
	if p50 > simulationGoal || most > simulationHeap || rig.Millis(beside) > neighborGoal*rig.Millis(alone) {
		b.Wrongf("%s: simulations take more than they may", b.kind)
	}
}

// fill writes clicks of a new link, with all attributes.
func (b *bench) fill(n int) (link string) {
	const batch = 10_000
	link = id.New(id.Link)
	from := newStream(n, b.end)
	begin := b.end.Add(-29 * click.Day)
	batches := make([]click.Click, 0, batch)
	for i := range n {
		var c click.Click
		from.next(&c)
		c.WorkspaceID, c.LinkID = b.members[0].ID(), link
		c.ClickedAt = begin.Add(28 * click.Day / time.Duration(n) * time.Duration(i)).Truncate(time.Microsecond)
		if i%3 == 0 && c.Device != "" {
			c.RuleID, c.TargetID = "rul_1", fmt.Sprint("tgt_", i%2)
		}
		if batches = append(batches, c); len(batches) == batch || i == n-1 {
			for k := range batches {
				batches[k].End = int64(i + 1 - len(batches) + k + 1)
			}
			rig.Check(b.store.Write(b, clickstore.Batch{Log: link, To: int64(i + 1), Clicks: batches}))
			batches = batches[:0]
		}
	}
	b.runJobs(&b.rounds[len(b.rounds)-1])
	return link
}

// simulatedRouting compares every attribute of clicks, and the time.
func simulatedRouting() *routing.Routing {
	rule := func(n int, shares int, when ...*routing.Condition) *routing.Rule {
		r := &routing.Rule{ID: fmt.Sprint("rul_", n), When: when}
		for i := range shares {
			t := &routing.Target{ID: fmt.Sprint("tgt_", n, i), URL: new(fmt.Sprint("https://example.com/", n, i))}
			r.Targets = append(r.Targets, t)
		}
		return r
	}
	return &routing.Routing{Rules: []*routing.Rule{
		rule(1, 1, &routing.Condition{OS: []string{"iOS"}}, &routing.Condition{Country: []string{"US", "CA"}}),
		rule(2, 2, &routing.Condition{Referrer: []string{".google.com", "t.co"}}),
		rule(3, 1, &routing.Condition{Weekly: &routing.WeeklySchedule{Timezone: "Europe/Berlin",
			Days: routing.Weekdays[1:6], From: "09:00", To: "17:00"}}, &routing.Condition{Language: []string{"de"}}),
		rule(4, 1, &routing.Condition{Browser: []string{"Firefox"}}, &routing.Condition{Device: []string{"mobile"}}),
		rule(5, 1, &routing.Condition{Query: &routing.QueryCondition{Name: "ref"}},
			&routing.Condition{Country: []string{"DE"}}),
	}}
}

// peakOf returns by how much the heap of the process has grown at most while f runs.
func (b *bench) peakOf(f func()) (most uint64) {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if runtime.ReadMemStats(&now); now.HeapInuse > before.HeapInuse {
					most = max(most, now.HeapInuse-before.HeapInuse)
				}
			}
		}
	})
	f()
	close(done)
	sampling.Wait()
	return most
}

// neighbor returns the 99th percentile of another tenant's stats, at least of some, and while more
// holds.
func (b *bench) neighbor(more func() bool) time.Duration {
	random := rand.New(rand.NewPCG(seed, 9))
	var took []time.Duration
	for len(took) < *queries || more() {
		link := 1 + workspaces*random.IntN(len(b.links)/workspaces) // of the second workspace
		began := time.Now()
		rig.Must(b.stats(subject{link, 1}, clickstore.Range{From: b.end.AddDate(0, 0, -90), To: b.end}, "UTC",
			clickstore.Filter{}).Series(b, stats.Day))
		took = append(took, time.Since(began))
	}
	return rig.Percentile(took, 0.99)
}
