package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig2"
)

// phase is a part of the drill.
type phase int32

const (
	before phase = iota
	migrating
	beside
	after
	phases
)

func (p phase) String() string {
	return [...]string{"the early server alone", "the late server starts and migrates", "both, side by side",
		"the late server alone"}[p]
}

// kinds are the kinds of requests: how many workers send them, and how long each pauses after a
// response. A small machine is busy with these hundreds of requests a second, and not overloaded.
var kinds = []struct {
	name    string
	workers int
	pause   time.Duration
	send    func(*load, *rig.Tenant) error
}{
	{"redirect", 8, 20 * time.Millisecond, (*load).redirect},
	{"createLink, a new URL", 3, 50 * time.Millisecond, (*load).create},
	{"createLink, a URL that has a link", 3, 50 * time.Millisecond, (*load).createAgain},
	{"query: a page of links with clicks", 2, 100 * time.Millisecond, (*load).query},
}

// load is what is sent during the drill.
type load struct {
	*drill
	phase  atomic.Int32
	clicks []atomic.Int64 // redirects by link
	next   atomic.Int64   // of new URLs, which are numbered from the end of the drill's

	mu sync.Mutex
	// targets are the servers to which requests go in turn, inFlight their unfinished requests.
	targets  []string
	inFlight map[string]*sync.WaitGroup
	turn     int
	results  [][phases]results // by kind
	codes    map[int]string    // of new URLs, by number
}

// results are those of the requests of one kind in a phase.
type results struct {
	times  []time.Duration
	failed []string
}

func newLoad(d *drill) *load {
	l := &load{drill: d, clicks: make([]atomic.Int64, len(d.codes)), results: make([][phases]results, len(kinds)),
		inFlight: map[string]*sync.WaitGroup{}, codes: map[int]string{}}
	l.aim(d.early.Address)
	return l
}

// aim sends all further requests to these servers.
func (l *load) aim(addresses ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.targets = addresses
	for _, a := range addresses {
		if l.inFlight[a] == nil {
			l.inFlight[a] = &sync.WaitGroup{}
		}
	}
}

// drain waits until a server that gets no more requests has responded to the last ones.
func (l *load) drain(address string) {
	l.mu.Lock()
	waiting := l.inFlight[address]
	l.mu.Unlock()
	waiting.Wait()
}

func (l *load) enter(p phase) { l.phase.Store(int32(p)) }

// start starts the load, and returns a function that stops it and waits for requests in flight.
func (l *load) start() (stop func()) {
	var running sync.WaitGroup
	ended := make(chan struct{})
	for i, k := range kinds {
		for range k.workers {
			running.Go(func() {
				for l.sendOne(i); ; l.sendOne(i) {
					select {
					case <-ended:
						return
					case <-time.After(k.pause/2 + rand.N(k.pause)):
					}
				}
			})
		}
	}
	return sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
}

func (l *load) sendOne(kind int) {
	l.mu.Lock()
	l.turn++
	address := l.targets[l.turn%len(l.targets)]
	waiting := l.inFlight[address]
	waiting.Add(1)
	l.mu.Unlock()
	defer waiting.Done()
	began, p := time.Now(), phase(l.phase.Load())
	err := kinds[kind].send(l, l.tenant.At(address))
	if p == before && phase(l.phase.Load()) >= migrating { // it overlaps the migration
		p = migrating
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.results[kind][p]
	r.times = append(r.times, time.Since(began))
	if err != nil {
		r.failed = append(r.failed, err.Error())
	}
}

// redirect follows any link.
func (l *load) redirect(c *rig.Tenant) error {
	number := rand.IntN(len(l.drill.codes))
	status, to, err := c.Follow(http.MethodGet, "/"+l.drill.codes[number])
	if status == http.StatusFound {
		l.clicks[number].Add(1)
	}
	if err == nil && (status != http.StatusFound || to != urlOf(number)) {
		err = fmt.Errorf("status %d, to %q", status, to)
	}
	return err
}

// create creates a link of a URL that has none.
func (l *load) create(c *rig.Tenant) error {
	number := len(l.drill.codes) + int(l.next.Add(1)) - 1
	created, err := c.CreateLink(urlOf(number))
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.codes[number] = created.Link.Code
	l.mu.Unlock()
	if !created.Created || created.Link.Code == "" {
		err = fmt.Errorf("URL %d: %+v", number, created)
	}
	return err
}

// createAgain creates a link that exists: of the beginning, or of those created since, perhaps by
// the other version.
func (l *load) createAgain(c *rig.Tenant) error {
	number := rand.IntN(len(l.drill.codes))
	want := l.drill.codes[number]
	if rand.IntN(2) == 0 {
		l.mu.Lock()
		for n, code := range l.codes { // any
			number, want = n, code
			break
		}
		l.mu.Unlock()
	}
	created, err := c.CreateLink(urlOf(number))
	if err == nil && (created.Created || created.Link.Code != want) {
		err = fmt.Errorf("URL %d: %+v, which had the code %q", number, created, want)
	}
	return err
}

func (l *load) query(c *rig.Tenant) error {
	var got struct {
		Workspace struct {
			Links struct {
				Edges []struct{ Node struct{ Code string } }
			}
		}
	}
	err := c.Do(&got, `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 20) { edges { node {
		id code originalUrl clickCount } } } } }`, map[string]any{"w": l.tenant.Workspace})
	if n := len(got.Workspace.Links.Edges); err == nil && n != 20 {
		err = fmt.Errorf("a page of %d links", n)
	}
	return err
}

// failures returns the number of failed requests.
func (l *load) failures() (all int) {
	for _, byPhase := range l.results {
		for _, r := range byPhase {
			all += len(r.failed)
		}
	}
	return all
}

// redirects returns the number of redirects.
func (l *load) redirects() (all int64) {
	for i := range l.clicks {
		all += l.clicks[i].Load()
	}
	return all
}

func (l *load) report() {
	for p := range phases {
		rows := [][]string{{p.String(), "responses", "failures", "median", "99 %", "slowest"}}
		for i, k := range kinds {
			r := &l.results[i][p]
			row := []string{k.name, fmt.Sprint(len(r.times)), fmt.Sprint(len(r.failed))}
			for _, part := range []float64{0.5, 0.99, 1} {
				row = append(row, fmt.Sprintf("%.1f ms", rig.Millis(rig.Percentile(r.times, part))))
			}
			rows = append(rows, row)
		}
		rig.Table(rows...)
	}
	for i, byPhase := range l.results {
		for p, r := range byPhase {
			if len(r.failed) > 0 {
				fmt.Printf("- failed: %s, %s: %s\n", kinds[i].name, phase(p), r.failed[0])
			}
		}
	}
}
