package admission

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Fair admits calls that have several subjects each, such as a network and a link. It is a
// self-clocked fair queue: a call waits for the next round, or for a later one if calls with a
// subject of it wait already, one round for each. So a round has about one call of a subject. A
// Gate lets one kind of subject take turns: a client that can choose it, by calls from many
// networks or for many links, has as many turns. Here such calls still have the other subjects in
// common. Of calls that arrive later, none delays a call whose subjects have no other call waiting,
// independent of their earlier calls.
//
// Share and Waiting are those of the first subject of a call.
type Fair struct {
	Config
	// KeepsRounds gives the round of a refused call to the next one of its first subject. So MaxWait
	// starves no subject that calls again, however many others wait. It is for subjects that a
	// client has few of: with many, it could save rounds for later.
	KeepsRounds bool

	mu      sync.Mutex
	used    int64
	held    map[string]int64 // calls in progress or at rest, by first subject
	waiting []*call          // in the order of their arrival
	round   int              // the latest one of an admitted call
	kept    map[string]int   // rounds of refused calls by first subject, the lowest one of each
}

// call is a call that waits.
type call struct {
	subjects []string
	round    int        // calls of lower rounds are admitted first
	ready    chan error // receives nil when admitted; buffered
}

// NewFair returns a Fair.
func NewFair(c Config) *Fair {
	return &Fair{Config: c, held: map[string]int64{}, kept: map[string]int{}}
}

// Enter waits until a call with the subjects is admitted, and returns a function that ends it, to
// be called once. The first subject then rests: its share stays in use for the given duration, and
// the capacity does not. The errors are those of Gate.Enter.
func (f *Fair) Enter(ctx context.Context, subjects ...string) (leave func(rest time.Duration), err error) {
	c := &call{subjects: subjects, ready: make(chan error, 1)}
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
	if f.waitingOf(c.subjects[0]) >= f.Waiting {
		c.ready <- f.tooMany()
		return
	}
	for _, subject := range c.subjects {
		c.round = max(c.round, f.round+1+f.waitingOf(subject))
	}
	if round, isKept := f.kept[c.subjects[0]]; isKept {
		delete(f.kept, c.subjects[0])
		c.round = min(c.round, round)
	}
	f.waiting = append(f.waiting, c)
	f.dispatch()
	if len(f.waiting) <= f.Queue {
		return
	}
	last := 0
	for i, other := range f.waiting {
		if other.round >= f.waiting[last].round {
			last = i
		}
	}
	f.waiting[last].ready <- f.busy()
	f.remove(last)
}

// remove ends the wait of a call that is refused.
func (f *Fair) remove(i int) {
	c := f.waiting[i]
	f.waiting = slices.Delete(f.waiting, i, i+1)
	if !f.KeepsRounds {
		return
	}
	if len(f.kept) >= f.Queue { // by subjects that have not called again
		clear(f.kept)
	}
	if round, isKept := f.kept[c.subjects[0]]; !isKept || c.round < round {
		f.kept[c.subjects[0]] = c.round
	}
}

// waitingOf returns the number of waiting calls of a subject.
func (f *Fair) waitingOf(subject string) (n int) {
	for _, c := range f.waiting {
		if slices.Contains(c.subjects, subject) {
			n++
		}
	}
	return n
}

// withdraw ends the wait of a call, unless it has been admitted or refused in the meantime.
func (f *Fair) withdraw(c *call, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, c)
	if i < 0 {
		return <-c.ready
	}
	f.remove(i)
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
			if f.held[c.subjects[0]] < f.Share && (next < 0 || c.round < f.waiting[next].round) {
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
		f.round = max(f.round, c.round)
		c.ready <- nil
	}
}
