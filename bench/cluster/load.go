package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// visitors and creators send requests at the same time.
	visitors = 30
	creators = 5
	// repeated is the percentage of creations of URLs that have a link.
	repeated = 40
)

// kind is a kind of request.
type kind int

const (
	visits        kind = iota // of links that exist from the beginning
	creations                 // of new and known URLs
	firstVisits               // of links that have just been created
	limitedVisits             // of the link whose quota is used up
	kinds
)

func (k kind) String() string {
	return [kinds]string{"links followed", "createLink", "new links followed", "the limited link followed"}[k]
}

// visitCount counts visits of a link: seen are redirects, unsure are requests without a response of
// Linkforge, which may have been counted or not.
type visitCount struct{ seen, unsure int }

// figures are about the requests of one kind in one phase.
type figures struct {
	requests, refused int // refused with 429, which is right for the limited link
	failures          map[string]int
	slowest           time.Duration
	// impairedFrom and impairedUntil enclose requests that failed or were slow.
	impairedFrom, impairedUntil time.Time
}

type phase struct {
	name  string
	kinds [kinds]figures
}

// book records all responses. A request counts for the phase during which it ends.
type book struct {
	mu      sync.Mutex
	phases  []*phase
	started [kinds]time.Time // beginning of the latest request with a good response

	visits         map[string]visitCount // by the link's id
	acknowledged   []rig.Link
	contradictions []string // links that got another code, or were created twice
}

func newBook() *book { return &book{visits: map[string]visitCount{}} }

// enter begins another phase.
func (b *book) enter(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &phase{name: name}
	for k := range p.kinds {
		p.kinds[k].failures = map[string]int{}
	}
	b.phases = append(b.phases, p)
}

// note records a request that has ended now. The problem is empty for a good response.
func (b *book) note(k kind, began time.Time, problem string) {
	const slow = time.Second
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.phases[len(b.phases)-1].kinds[k]
	ended := time.Now()
	f.requests++
	f.slowest = max(f.slowest, ended.Sub(began))
	refused := k == limitedVisits && problem == strconv.Itoa(http.StatusTooManyRequests)
	good := problem == "" || refused
	if !good || ended.Sub(began) > slow {
		if f.impairedFrom.IsZero() || began.Before(f.impairedFrom) {
			f.impairedFrom = began
		}
		f.impairedUntil = ended
	}
	if !good {
		f.failures[problem]++
		return
	}
	if refused {
		f.refused++
	}
	if began.After(b.started[k]) {
		b.started[k] = began
	}
}

func (b *book) startedLast(k kind) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.started[k]
}

func (b *book) visitsOf(id string) visitCount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.visits[id]
}

func (b *book) redirects() (all int) {
	for _, n := range b.visits {
		all += n.seen
	}
	return all
}

func (b *book) drilled(name string) bool {
	return slices.ContainsFunc(b.phases, func(p *phase) bool { return p.name == name })
}

// failuresOf returns failures of some kinds in a phase, by problem.
func (b *book) failuresOf(name string, of ...kind) map[string]int {
	all := map[string]int{}
	for _, p := range b.phases {
		for _, k := range of {
			for problem, n := range p.kinds[k].failures {
				if p.name == name {
					all[problem] += n
				}
			}
		}
	}
	return all
}

func (b *book) failures(name string, of ...kind) string { return format(b.failuresOf(name, of...)) }

func format(failures map[string]int) string {
	var words []string
	for _, problem := range slices.Sorted(maps.Keys(failures)) {
		words = append(words, fmt.Sprintf("%d × %s", failures[problem], problem))
	}
	return strings.Join(words, ", ")
}

// rows are those of the report's table.
func (b *book) rows() [][]string {
	rows := [][]string{{"phase", "what", "requests", "failed", "slowest", "impaired"}}
	for _, p := range b.phases {
		for k := range kinds {
			f := &p.kinds[k]
			if f.requests == 0 {
				continue
			}
			failed := format(f.failures)
			if f.refused > 0 {
				failed = strings.TrimPrefix(failed+fmt.Sprintf(", %d were 429", f.refused), ", ")
			}
			rows = append(rows, []string{p.name, k.String(), strconv.Itoa(f.requests), failed,
				fmt.Sprintf("%.2f", f.slowest.Seconds()),
				fmt.Sprintf("%.1f", f.impairedUntil.Sub(f.impairedFrom).Seconds())})
		}
	}
	return rows
}

// repeat has n workers call do, perSecond times a second together. The function that it returns
// stops them, and waits for their requests.
func repeat(n, perSecond int, do func(worker int)) (stop func()) {
	var running sync.WaitGroup
	ended := make(chan struct{})
	every := time.Second * time.Duration(n) / time.Duration(perSecond)
	for worker := range n {
		running.Go(func() {
			time.Sleep(rand.N(every))
			next := time.NewTicker(every)
			defer next.Stop()
			for {
				do(worker)
				select {
				case <-next.C:
				case <-ended:
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
}

// startLoad starts visitors and creators. A creator repeats a creation that failed.
func (d *drill) startLoad() {
	d.stops = append(d.stops, repeat(visitors, *rate, func(int) { d.visit(visits, d.links[rand.IntN(len(d.links))]) }))
	var pending [creators]string
	var number [creators]int
	d.stops = append(d.stops, repeat(creators, *creates, func(c int) {
		if pending[c] == "" && rand.IntN(100) < repeated && d.createAgain() {
			return
		}
		if pending[c] == "" {
			number[c]++
			pending[c] = fmt.Sprintf("https://example.com/drill/%d/%d", c, number[c])
		}
		if result, ok := d.create(pending[c]); ok {
			pending[c] = ""
			d.mu.Lock()
			d.acknowledged = append(d.acknowledged, result.Link)
			d.mu.Unlock()
			d.visit(firstVisits, result.Link)
		}
	}))
}

func (d *drill) stopLoad() {
	for _, stop := range d.stops {
		stop()
	}
}

// visit follows a link through the load balancer.
func (d *drill) visit(k kind, at rig.Link) { d.visitThrough(d.tenant, k, at) }

// visitThrough follows a link.
func (d *drill) visitThrough(who *rig.Tenant, k kind, at rig.Link) {
	began := time.Now()
	status, _, err := who.Follow(http.MethodGet, at.Path())
	var count visitCount
	problem := ""
	switch {
	case err != nil:
		problem, count.unsure = problemOf(err), 1
	case status == http.StatusFound:
		count.seen = 1
	default:
		problem = strconv.Itoa(status)
		if status == http.StatusBadGateway || status == http.StatusGatewayTimeout { // of nginx
			count.unsure = 1
		}
	}
	d.note(k, began, problem)
	d.mu.Lock()
	defer d.mu.Unlock()
	had := d.book.visits[at.ID]
	d.book.visits[at.ID] = visitCount{had.seen + count.seen, had.unsure + count.unsure}
}

// problemOf names an error of a request.
func problemOf(err error) string {
	if refusal, ok := errors.AsType[rig.Refusal](err); ok {
		return refusal.Code
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout"
	}
	return "no response"
}

// create creates a link.
func (d *drill) create(to string) (result rig.Result, ok bool) {
	began := time.Now()
	result, err := d.tenant.CreateLink(to)
	if err != nil {
		d.note(creations, began, problemOf(err))
		return result, false
	}
	d.note(creations, began, "")
	return result, true
}

// createAgain creates a link that was acknowledged, which must be the same. It returns false when
// there is none.
func (d *drill) createAgain() bool {
	d.mu.Lock()
	var known rig.Link
	if len(d.acknowledged) > 0 {
		known = d.acknowledged[rand.IntN(len(d.acknowledged))]
	}
	d.mu.Unlock()
	if known.ID == "" {
		return false
	}
	if result, ok := d.create(known.OriginalURL); ok && (result.Created || result.Link != known) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.contradictions = append(d.contradictions, fmt.Sprintf("%+v became %+v", known, result))
	}
	return true
}
