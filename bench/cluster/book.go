package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// kind is what people do.
type kind int

const (
	// visits follow links that everybody knows.
	visits kind = iota
	// creations make links, or find those that are there.
	creations
	// firstVisits follow links that have just been made.
	firstVisits
	// limitedVisits follow the link whose allowance is used up.
	limitedVisits
	kinds
)

func (k kind) String() string {
	return [kinds]string{"links followed", "createLink", "new links followed", "the limited link followed"}[k]
}

// slow is how long an answer takes that people notice.
const slow = time.Second

// Outcomes that are no failures.
const (
	good    = ""
	refused = "429" // of the limited link
)

// entry is one request.
type entry struct {
	kind         kind
	began, ended time.Time
	outcome      string // good, refused, or what went wrong
}

// figures are about the requests of one kind in one phase.
type figures struct {
	requests, refused int64
	failures          map[string]int64
	slowest           time.Duration
	// gap is the longest time without a good answer.
	gap time.Duration
	// impairedFrom and impairedUntil are the first and last moment at which somebody's request failed,
	// or took long.
	impairedFrom, impairedUntil time.Time
}

// failed is how many requests failed.
func (f *figures) failed() (n int64) {
	for _, of := range f.failures {
		n += of
	}
	return n
}

// impaired is how long requests failed now and then, or took long.
func (f *figures) impaired() time.Duration { return f.impairedUntil.Sub(f.impairedFrom) }

// phase is a part of the drill.
type phase struct {
	name string
	of   [kinds]figures
}

// book has what was answered, phase by phase. A request belongs to the phase in which it ends.
type book struct {
	mu       sync.Mutex
	phases   []*phase
	lastGood [kinds]time.Time // when the last good answer came
	started  [kinds]time.Time // when the latest request began that had one
}

func newBook() *book { return &book{} }

// turn begins another phase.
func (b *book) turn(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &phase{name: name}
	for k := range p.of {
		p.of[k].failures = map[string]int64{}
	}
	b.phases = append(b.phases, p)
}

// note writes a request down.
func (b *book) note(e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.phases[len(b.phases)-1].of[e.kind]
	took := e.ended.Sub(e.began)
	f.requests++
	f.slowest = max(f.slowest, took)
	isGood := e.outcome == good || e.kind == limitedVisits && e.outcome == refused
	if !isGood || took > slow {
		if f.impairedFrom.IsZero() || e.began.Before(f.impairedFrom) {
			f.impairedFrom = e.began
		}
		if e.ended.After(f.impairedUntil) {
			f.impairedUntil = e.ended
		}
	}
	if !isGood {
		f.failures[e.outcome]++
		return
	}
	if e.outcome == refused {
		f.refused++
	}
	if last := b.lastGood[e.kind]; !last.IsZero() {
		f.gap = max(f.gap, e.ended.Sub(last))
	}
	b.lastGood[e.kind] = latest(b.lastGood[e.kind], e.ended)
	b.started[e.kind] = latest(b.started[e.kind], e.began)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// goodSince says that a request which began after that moment had a good answer.
func (b *book) goodSince(k kind, t time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.started[k].After(t)
}

// failures are those of some kinds in a phase, by what went wrong.
func (b *book) failures(name string, of ...kind) map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]int64{}
	for _, p := range b.phases {
		if p.name != name {
			continue
		}
		for _, k := range of {
			for what, n := range p.of[k].failures {
				all[what] += n
			}
		}
	}
	return all
}

// link is one whose visits are counted.
type link struct{ id, url, code, path string }

// visitCount is how often a link was followed: seen are redirects, unsure are requests without an
// answer of Linkforge, which may have been counted or not.
type visitCount struct{ seen, unsure int64 }

// tally counts the visits of every link.
type tally struct {
	mu  sync.Mutex
	all map[string]visitCount // by the link's id
}

func newTally() *tally { return &tally{all: map[string]visitCount{}} }

func (t *tally) add(id string, more visitCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.all[id]
	t.all[id] = visitCount{had.seen + more.seen, had.unsure + more.unsure}
}

func (t *tally) of(id string) visitCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[id]
}

func (t *tally) snapshot() map[string]visitCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.all)
}

// counted is what the database has of a link: in all, by its sums, and click by click.
type counted struct{ total, sums, rows int64 }

// difference is what is wrong between the visits and what was counted.
type difference struct {
	links, lost, twice int64
	example            string
}

// compare finds links whose visits were not counted once each, in every way of counting.
func compare(seen map[string]visitCount, has map[string]counted) (d difference) {
	ids := slices.Sorted(maps.Keys(seen))
	for id := range has {
		if _, ok := seen[id]; !ok {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		s, h := seen[id], has[id]
		low, high := min(h.total, h.sums, h.rows), max(h.total, h.sums, h.rows)
		lost, twice := max(0, s.seen-low), max(0, high-s.seen-s.unsure)
		if lost == 0 && twice == 0 && low == high {
			continue
		}
		d.links++
		d.lost += lost
		d.twice += twice
		if d.example == "" {
			d.example = id
		}
	}
	return d
}
