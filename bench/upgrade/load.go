package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
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

// kind is a kind of request: how many workers send it, and how long each rests after an answer.
type kind struct {
	name    string
	workers int
	pause   time.Duration
	send    func(*load, context.Context, *rig.Tenant) error
}

// kinds come to some hundred requests a second, with which a small machine is busy and not short of
// time.
var kinds = []kind{
	{"redirect", 8, 20 * time.Millisecond, (*load).redirect},
	{"createLink, a new URL", 3, 50 * time.Millisecond, (*load).create},
	{"createLink, a URL that has a link", 3, 50 * time.Millisecond, (*load).repeat},
	{"query: a page of links with clicks", 2, 100 * time.Millisecond, (*load).query},
}

// load is what goes on during the drill.
type load struct {
	*estate
	http    *http.Client
	running sync.WaitGroup
	ended   chan struct{}
	end     sync.Once
	phase   atomic.Int32
	// clicks are the redirects that were answered, by link.
	clicks []atomic.Int64
	// created counts the links made from new URLs, which are numbered from the end of the estate's.
	created, next atomic.Int64

	mu sync.Mutex
	// targets are the servers that requests go to in turn, inFlight how many requests each has not
	// answered.
	targets  []string
	inFlight map[string]*sync.WaitGroup
	turn     int
	// noted is what came of the requests, by kind and phase.
	noted [][phases]noted
	// codes are those of the new URLs, by number.
	codes map[int]string
}

// noted is what came of requests.
type noted struct {
	times   []time.Duration
	answers int
	// failures are how many were not answered as they should; the first of them are told.
	failures int
	told     []string
}

func newLoad(e *estate, address string) *load {
	l := &load{
		estate: e, ended: make(chan struct{}), clicks: make([]atomic.Int64, len(e.codes)),
		noted:    make([][phases]noted, len(kinds)),
		inFlight: map[string]*sync.WaitGroup{}, codes: map[int]string{},
		http: rig.NewClient(),
	}
	l.aim(address)
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

// rest waits until a server that gets no more requests has answered the last ones.
func (l *load) rest(address string) {
	l.mu.Lock()
	waiting := l.inFlight[address]
	l.mu.Unlock()
	waiting.Wait()
}

func (l *load) enter(p phase) { l.phase.Store(int32(p)) }

func (l *load) start() {
	for i, k := range kinds {
		for range k.workers {
			l.running.Go(func() { l.work(i, k) })
		}
	}
}

// stop lets what is in flight end. A second call does nothing.
func (l *load) stop() {
	l.end.Do(func() { close(l.ended) })
	l.running.Wait()
}

func (l *load) work(i int, k kind) {
	for {
		began, phase := time.Now(), phase(l.phase.Load())
		err := l.sendOne(k)
		l.note(i, l.overlapping(phase), time.Since(began), err)
		select {
		case <-l.ended:
			return
		case <-time.After(k.pause/2 + rand.N(k.pause)):
		}
	}
}

// overlapping is the phase that a request counts to which began in another: one that has seen
// anything of the migration counts to it.
func (l *load) overlapping(began phase) phase {
	if now := phase(l.phase.Load()); began == before && now >= migrating {
		return migrating
	}
	return began
}

func (l *load) sendOne(k kind) error {
	l.mu.Lock()
	l.turn++
	address := l.targets[l.turn%len(l.targets)]
	waiting := l.inFlight[address]
	waiting.Add(1)
	l.mu.Unlock()
	defer waiting.Done()
	return k.send(l, context.Background(), &rig.Tenant{Address: address, Token: l.Token, HTTP: l.http})
}

func (l *load) note(kind int, p phase, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &l.noted[kind][p]
	n.times = append(n.times, took)
	n.answers++
	if err != nil {
		n.failures++
		if len(n.told) < 3 {
			n.told = append(n.told, err.Error())
		}
	}
}

// redirect follows any link.
func (l *load) redirect(ctx context.Context, c *rig.Tenant) error {
	number := rand.IntN(len(l.estate.codes))
	status, to, err := c.Follow(ctx, "/"+l.estate.codes[number])
	if err != nil {
		return err
	}
	if status == http.StatusFound {
		l.clicks[number].Add(1)
	}
	if status != http.StatusFound || to != urlOf(number) {
		return fmt.Errorf("answered with %d, to %q", status, to)
	}
	return nil
}

// create makes a link of a URL that has none.
func (l *load) create(ctx context.Context, c *rig.Tenant) error {
	number := len(l.estate.codes) + int(l.next.Add(1)) - 1
	created, code, err := l.createLink(ctx, c, number)
	if err != nil {
		return err
	}
	l.created.Add(1)
	l.mu.Lock()
	l.codes[number] = code
	l.mu.Unlock()
	if !created || code == "" {
		return fmt.Errorf("URL %d: created %t, code %q", number, created, code)
	}
	return nil
}

// repeat makes a link again that is there: of the estate's, or of those made since, maybe by the
// other version.
func (l *load) repeat(ctx context.Context, c *rig.Tenant) error {
	number := rand.IntN(len(l.estate.codes))
	want := l.estate.codes[number]
	if rand.IntN(2) == 0 {
		l.mu.Lock()
		for n, code := range l.codes { // any
			number, want = n, code
			break
		}
		l.mu.Unlock()
	}
	created, code, err := l.createLink(ctx, c, number)
	if err == nil && (created || code != want) {
		err = fmt.Errorf("URL %d: created %t, code %q, which was %q", number, created, code, want)
	}
	return err
}

func (l *load) createLink(ctx context.Context, c *rig.Tenant, number int) (created bool, code string, err error) {
	in := *c
	in.Workspace = l.Workspace
	made, err := in.CreateLink(ctx, urlOf(number))
	return made.Created, made.Link.Code, err
}

func (l *load) query(ctx context.Context, c *rig.Tenant) error {
	var got struct {
		Workspace struct {
			Links struct {
				Edges []struct{ Node struct{ Code string } }
			}
		}
	}
	err := c.Do(ctx, &got, `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 20) { edges { node { id code originalUrl clickCount } } } } }`,
		map[string]any{"w": l.Workspace})
	if n := len(got.Workspace.Links.Edges); err == nil && n != 20 {
		err = fmt.Errorf("a page of %d links", n)
	}
	return err
}

// failures are those of all kinds and phases.
func (l *load) failures() (all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, byPhase := range l.noted {
		for _, n := range byPhase {
			all += n.failures
		}
	}
	return all
}

// redirected is how many redirects were answered.
func (l *load) redirected() (all int64) {
	for i := range l.clicks {
		all += l.clicks[i].Load()
	}
	return all
}

// told are the first failures, each once.
func (l *load) told() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, byPhase := range l.noted {
		for p, n := range byPhase {
			for _, one := range n.told {
				all = append(all, fmt.Sprintf("%s, %s: %s", kinds[i].name, phase(p), one))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
