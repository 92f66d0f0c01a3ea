package admission

import (
	"context"
	"slices"
	"sync"
	"time"
)

// recentCalls is the number of admitted calls after which all counts of a Fair are halved, so that they are those of
// recent calls and their memory is bounded.
const recentCalls = 1024

// Fair admits calls that have several subjects each, such as a network and a link. Of the calls that wait,
// it admits first the one whose subjects had the fewest calls lately. A Gate lets one kind of subject take turns: a
// client that can choose it, by calls from many networks or for many links, has as many turns. Here such calls still
// have the other subjects in common, and wait for all that have none in common with them.
//
// Share and Waiting are those of the first subject of a call.
type Fair struct {
	Config

	mu      sync.Mutex
	used    int64
	held    map[string]int64 // calls in progress or at rest, by first subject
	waiting []*call          // in the order of their arrival
	recent  map[string]int   // admitted calls by subject
	total   int              // admitted calls
}

// call is a call that waits.
type call struct {
	subjects []string
	ready    chan error // receives nil when admitted; buffered
}

// NewFair returns a Fair.
func NewFair(c Config) *Fair {
	return &Fair{Config: c, held: map[string]int64{}, recent: map[string]int{}}
}

// Enter waits until a call with the subjects is admitted, and returns a function that ends it, to be called once. The
// first subject then rests: its share stays in use for the given duration, and the capacity does not. The errors are
// those of Gate.Enter.
func (f *Fair) Enter(ctx context.Context, subjects ...string) (leave func(rest time.Duration), err error) {
	c := &call{subjects, make(chan error, 1)}
	f.enqueue(c)
	limited, cancel := context.WithTimeout(ctx, f.MaxWait)
	defer cancel()
	select {
	case err = <-c.ready:
	case <-limited.Done():
		err = f.withdraw(c, ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	return func(rest time.Duration) { f.leave(subjects[0], rest) }, nil
}

// enqueue lets a call wait. If too many wait, it refuses the one that would be admitted last.
func (f *Fair) enqueue(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ofSubject := 0
	for _, other := range f.waiting {
		if other.subjects[0] == c.subjects[0] {
			ofSubject++
		}
	}
	if ofSubject >= f.Waiting {
		c.ready <- f.tooMany()
		return
	}
	f.waiting = append(f.waiting, c)
	f.dispatch()
	if len(f.waiting) <= f.Queue {
		return
	}
	last := 0
	for i, other := range f.waiting {
		if f.recentOf(other) >= f.recentOf(f.waiting[last]) {
			last = i
		}
	}
	f.waiting[last].ready <- f.busy()
	f.waiting = slices.Delete(f.waiting, last, last+1)
}

// withdraw ends the wait of a call, unless it has been admitted or refused in the meantime.
func (f *Fair) withdraw(c *call, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, c)
	if i < 0 {
		return <-c.ready
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	return f.busy().Because(cause)
}

// leave ends a call, and the use of the subject's share after its rest.
func (f *Fair) leave(subject string, rest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used--
	if rest > 0 {
		time.AfterFunc(rest, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.release(subject)
		})
		f.dispatch()
		return
	}
	f.release(subject)
}

func (f *Fair) release(subject string) {
	if f.held[subject]--; f.held[subject] == 0 {
		delete(f.held, subject)
	}
	f.dispatch()
}

// dispatch admits waiting calls as far as the capacity and their shares permit.
func (f *Fair) dispatch() {
	for f.used < f.Capacity {
		next := -1
		for i, c := range f.waiting {
			if f.held[c.subjects[0]] < f.Share && (next < 0 || f.recentOf(c) < f.recentOf(f.waiting[next])) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		c := f.waiting[next]
		f.waiting = slices.Delete(f.waiting, next, next+1)
		f.used++
		f.held[c.subjects[0]]++
		f.count(c)
		c.ready <- nil
	}
}

// recentOf returns the recent calls of the subject of a call that had most.
func (f *Fair) recentOf(c *call) (most int) {
	for _, subject := range c.subjects {
		most = max(most, f.recent[subject])
	}
	return most
}

// count counts an admitted call for its subjects.
func (f *Fair) count(c *call) {
	for _, subject := range c.subjects {
		f.recent[subject]++
	}
	if f.total++; f.total < recentCalls {
		return
	}
	f.total /= 2
	for subject, n := range f.recent {
		if f.recent[subject] = n / 2; n < 2 {
			delete(f.recent, subject)
		}
	}
}
