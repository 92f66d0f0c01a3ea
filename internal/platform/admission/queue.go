// Package admission bounds concurrent work on a node and divides it fairly between subjects, such
// as accounts, workspaces and addresses: none of them can take more than its share, and waiting
// subjects take turns. It is independent of the kind of work. Accounts (password hashes), the
// database (connections), the GraphQL endpoint (request bodies, expensive operations), tasks and
// webhooks call it.
package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// Config are the bounds of calls of Enter. All are required, unless they are said to be optional.
type Config struct {
	// Name is the bounded work, in the plural: "Too many log-ins are in progress".
	Name string
	// Capacity is the work that may be in progress at once, in units of the caller's choice. Share
	// is the part of it that the first subject of a call may have.
	Capacity, Share int64
	// Waiting is the number of calls of one first subject that may wait, AllWaiting that of all.
	Waiting, AllWaiting int
	// MaxWait bounds the wait of a call.
	MaxWait time.Duration
	// Last is the first subject whose calls are admitted only while no other call could be;
	// optional.
	Last string
	// KeepsRounds gives the round of a refused call to the next one of its first subject. So MaxWait
	// starves no subject that calls again, however many others wait. It is for subjects that a
	// client has few of: with many, it could save rounds for later. Optional.
	KeepsRounds bool
}

// Bound is the work that a subject may have in progress at once. Kind separates subjects that have
// the same name.
type Bound struct {
	Kind, Subject string
	Max           int64
}

// Queue admits work. A caller of Enter waits for its turn; one of Take takes as much as there is
// room for. The zero value is ready for Take.
//
// It is a self-clocked fair queue: a call waits for the next round, or for a later one if calls
// with a subject of it wait already, one round for each. So a round has about one call of a
// subject, and calls with the same subjects are admitted in the order of their arrival. A call may
// have several subjects, such as a network and a link: a client that can choose one of them, by
// calls from many networks, still has the other one in common with all of its calls. A call
// whose subjects have no other call is not delayed by calls that arrive later, however many calls
// its subjects made before.
type Queue struct {
	Config

	mu      sync.Mutex
	used    int64          // units of calls in progress
	uses    map[Bound]*use // of the subjects that have units or waiting calls
	waiting []*Turn        // in the order of Turn.compare
	round   int            // the latest one of an admitted call
	kept    map[string]int // rounds of refused calls by first subject, the lowest one of each
}

// use is what a subject uses of a Queue.
type use struct {
	units   int64 // in progress or at rest
	waiting int   // calls
}

// Turn is a call of Enter: it waits, or has been admitted.
type Turn struct {
	queue    *Queue
	subjects []string
	units    int64
	round    int        // calls of lower rounds are admitted first
	first    *use       // of the first subject, while the call waits
	ready    chan error // receives nil when admitted; buffered
	isHeld   bool       // the units are in use
	isOver   bool       // by Leave; no further turn follows
}

// New returns a Queue.
func New(c Config) *Queue { return &Queue{Config: c} }

// Enter waits until units of work are admitted for a call with the subjects. The caller ends the
// turn. Work larger than the share counts as the whole share. Enter returns RateLimited if too many
// calls of the first subject wait already, and Unavailable if the wait was too long.
func (q *Queue) Enter(ctx context.Context, units int64, subjects ...string) (*Turn, error) {
	t := &Turn{queue: q, subjects: subjects, units: min(units, q.Share)}
	return t, t.enter(ctx)
}

func (t *Turn) enter(ctx context.Context) error {
	t.queue.join(t)
	timer := time.NewTimer(t.queue.MaxWait)
	defer timer.Stop()
	select {
	case err := <-t.ready:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	return t.queue.withdraw(t, ctx.Err())
}

// Leave ends the turn.
func (t *Turn) Leave() { t.LeaveAndRest(0) }

// LeaveAndRest ends the turn. The first subject then rests: its share stays in use for the given
// duration, and the capacity does not.
func (t *Turn) LeaveAndRest(rest time.Duration) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.isOver = true
	t.end(rest)
}

// Suspend releases an admitted turn while its work waits for something outside. Then call resume,
// which waits for the next turn. It refuses nothing, because the work has begun; without a turn it
// returns only when the context has ended. A nil Turn and one that has ended are left as they are.
func (t *Turn) Suspend() (resume func(context.Context)) {
	if t == nil || !t.suspend() {
		return func(context.Context) {}
	}
	return func(ctx context.Context) {
		for {
			err := t.enter(ctx)
			if err == nil || poll.Wait(ctx, errs.From(err).Retry()) != nil {
				return
			}
		}
	}
}

func (t *Turn) suspend() (wasHeld bool) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	wasHeld = t.isHeld
	t.end(0)
	return wasHeld
}

// end frees the units of an admitted call.
func (t *Turn) end(rest time.Duration) {
	if !t.isHeld {
		return
	}
	t.isHeld = false
	q, subject := t.queue, Bound{Subject: t.subjects[0]}
	q.used -= t.units
	if rest > 0 {
		time.AfterFunc(rest, func() { q.Give(t.units, subject) })
	} else {
		q.count(subject, -t.units, 0)
	}
	q.dispatch()
}

// compare orders waiting calls: those of Last behind all others, and of lower rounds first.
func (t *Turn) compare(other *Turn) int {
	return cmp.Or(cmp.Compare(t.class(), other.class()), cmp.Compare(t.round, other.round))
}

func (t *Turn) class() int {
	if t.queue.Last != "" && t.subjects[0] == t.queue.Last {
		return 1
	}
	return 0
}

// join lets a call wait until it is admitted or refused, if not at once.
func (q *Queue) join(t *Turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.ready = make(chan error, 1)
	first := Bound{Subject: t.subjects[0]}
	if u := q.uses[first]; u != nil && u.waiting >= q.Waiting {
		t.ready <- q.tooMany()
		return
	}
	t.round = q.nextRound(t)
	for _, subject := range t.subjects {
		q.count(Bound{Subject: subject}, 0, 1)
	}
	t.first = q.uses[first]
	i, _ := slices.BinarySearchFunc(q.waiting, t, func(other, t *Turn) int { return cmp.Or(other.compare(t), -1) })
	q.waiting = slices.Insert(q.waiting, i, t)
	q.dispatch()
	if len(q.waiting) > q.AllWaiting {
		q.makeRoom(t)
	}
}

// nextRound returns the round of a new call. A first subject that has used its share, and could not
// be admitted, waits for one round more.
func (q *Queue) nextRound(t *Turn) int {
	round := q.round + 1
	for i, subject := range t.subjects {
		u := q.uses[Bound{Subject: subject}]
		switch {
		case u == nil:
		case i == 0 && u.units+t.units > q.Share:
			round = max(round, q.round+2+u.waiting)
		default:
			round = max(round, q.round+1+u.waiting)
		}
	}
	if u := q.uses[Bound{Subject: t.subjects[0]}]; u != nil && u.waiting > 0 { // those before them may have left
		for _, other := range slices.Backward(q.waiting) {
			if slices.Equal(other.subjects, t.subjects) {
				round = max(round, other.round)
				break
			}
		}
	}
	if kept, isKept := q.kept[t.subjects[0]]; isKept {
		delete(q.kept, t.subjects[0])
		round = min(round, kept)
	}
	return round
}

// makeRoom refuses the last call of the subject with the most waiting calls.
func (q *Queue) makeRoom(newest *Turn) {
	refused, most := 0, 0
	for i, t := range q.waiting {
		for _, subject := range t.subjects {
			if n := q.uses[Bound{Subject: subject}].waiting; n >= most {
				refused, most = i, n
			}
		}
	}
	t := q.waiting[refused]
	err := q.busy()
	if t.first.waiting > newest.first.waiting {
		err = q.tooMany()
	}
	q.refuse(refused)
	t.ready <- err
}

// withdraw ends the wait of a call, unless it has been admitted or refused in the meantime.
func (q *Queue) withdraw(t *Turn, cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return <-t.ready
	}
	q.refuse(i)
	return q.busy().Because(cause)
}

// refuse ends the wait of a call that is not admitted. Others may have waited behind it.
func (q *Queue) refuse(i int) {
	t := q.remove(i)
	q.dispatch()
	if !q.KeepsRounds {
		return
	}
	if q.kept == nil || len(q.kept) >= q.AllWaiting { // by subjects that have not called again
		q.kept = map[string]int{}
	}
	if round, isKept := q.kept[t.subjects[0]]; !isKept || t.round < round {
		q.kept[t.subjects[0]] = t.round
	}
}

// dispatch admits waiting calls in turn. A call that does not fit into the capacity lets no other
// pass, so that large calls are admitted too; one that does not fit into the share is skipped, with
// those of its first subject behind it.
func (q *Queue) dispatch() {
	isSkipped := map[*use]bool{} // those with a part of their share left
	for i := 0; i < len(q.waiting) && q.used < q.Capacity; {
		t := q.waiting[i]
		if t.first.units+t.units > q.Share || isSkipped[t.first] {
			if t.first.units < q.Share {
				isSkipped[t.first] = true
			}
			i++
			continue
		}
		if q.used+t.units > q.Capacity {
			return
		}
		if t.isHeld = !t.isOver; t.isHeld {
			q.used += t.units
			q.count(Bound{Subject: t.subjects[0]}, t.units, 0)
		}
		q.remove(i)
		q.round = max(q.round, t.round)
		t.ready <- nil
	}
}

// remove ends the wait of a call.
func (q *Queue) remove(i int) *Turn {
	t := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	for _, subject := range t.subjects {
		q.count(Bound{Subject: subject}, 0, -1)
	}
	return t
}

// count changes the use of a subject.
func (q *Queue) count(subject Bound, units int64, waiting int) {
	u := q.uses[subject]
	if u == nil {
		if q.uses == nil {
			q.uses = map[Bound]*use{}
		}
		u = &use{}
		q.uses[subject] = u
	}
	u.units += units
	u.waiting += waiting
	if *u == (use{}) {
		delete(q.uses, subject)
	}
}

// Take takes up to n units that fit into all bounds, and returns how many. Give returns them.
func (q *Queue) Take(n int64, bounds ...Bound) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range bounds {
		n = min(n, b.Max-q.unitsOf(b))
	}
	n = max(0, n)
	for _, b := range bounds {
		q.count(b, n, 0)
	}
	return n
}

// Give returns n units that were taken within bounds.
func (q *Queue) Give(n int64, bounds ...Bound) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range bounds {
		q.count(b, -n, 0)
	}
	q.dispatch()
}

// Used returns the units in progress within a bound.
func (q *Queue) Used(b Bound) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unitsOf(b)
}

func (q *Queue) unitsOf(b Bound) int64 {
	if u := q.uses[b]; u != nil {
		return u.units
	}
	return 0
}

// Full returns the subjects of a kind that have no unit left.
func (q *Queue) Full(kind string) (subjects []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for b, u := range q.uses {
		if b.Kind == kind && u.units >= b.Max {
			subjects = append(subjects, b.Subject)
		}
	}
	return subjects
}

// retryAfter is the delay after which refused callers may try again.
const retryAfter = time.Second

func (c *Config) tooMany() *errs.Error {
	return errs.New(errs.RateLimited, "Too many %s of yours are in progress. Send fewer at once.", c.Name).
		After(retryAfter)
}

func (c *Config) busy() *errs.Error {
	return errs.New(errs.Unavailable, "Too many %s are in progress. Try again in a moment.", c.Name).After(retryAfter)
}

// Stats returns the units of calls in progress and the number of those that wait.
func (q *Queue) Stats() (used int64, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used, len(q.waiting)
}
