package upkeep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

const (
	// checkBatch is the number of destinations per batch, atOnce the number of hosts that are
	// checked at the same time.
	checkBatch = 500
	atOnce     = 8
	// perHost is the number of destinations per host in a batch. Others follow in later batches, so
	// that a host with many links does not delay other hosts.
	perHost = 60
	// perAccount is the number of destinations that are checked for an account before it waits until
	// no other one has any: its hosts may be slow.
	perAccount = 100
	// batchDeadline ends a batch before the leases of its checks end.
	batchDeadline = CheckLease - time.Minute
)

// Run checks all due destinations, and returns when none is left or its time is up; the next run
// continues. It returns an error when it is interrupted, or when the database fails.
func (c *Checker) Run(ctx context.Context) error {
	r := &run{Checker: c, hosts: map[string]*host{}, turns: map[string]int{}, waiting: map[string]bool{}}
	doubted, err := c.Links.DoubtChecks(ctx, max(healthyInterval, maxPause))
	if err != nil && ctx.Err() == nil {
		return err
	}
	if doubted > 0 {
		db.WarnOfClock(ctx, c.Log, "the next check of URLs", "urls", doubted)
	}
	for ctx.Err() == nil {
		more, err := r.batch(ctx)
		if ctx.Err() == nil && (err != nil || !more) {
			return err
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

// run is one run of the job.
type run struct {
	*Checker
	// hosts are the checked hosts by name.
	hosts map[string]*host
	// turns counts the destinations of each account, and waiting has the workspaces of those that
	// wait. isServed means that no other account has any: from then on, none waits.
	turns    map[string]int
	waiting  map[string]bool
	isServed bool

	mu sync.Mutex
	// results are those of the present batch; none is stored yet.
	results []result
}

// host is the state of a host in a run. One goroutine at a time uses it.
type host struct {
	// due are its destinations in this batch.
	due []Due
	// asked means that it was checked before; until is the end of its pause, zero if it has none.
	asked bool
	until time.Time
	// responded means that a check had a response, fellSilent that one had none whose URL worked
	// before.
	responded, fellSilent bool
}

// batch asks the next destinations, and reports whether there were any.
func (r *run) batch(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchDeadline)
	defer cancel()
	due, err := r.next(ctx)
	if err != nil || len(due) == 0 {
		return false, err
	}
	checking, ctx := errgroup.WithContext(ctx)
	checking.SetLimit(atOnce)
	for _, h := range r.group(due) {
		checking.Go(func() error { return r.checkHost(ctx, h) })
	}
	err = checking.Wait()
	return true, errors.Join(err, r.recordAll(ctx))
}

// next returns the destinations of the next batch; none at the end.
func (r *run) next(ctx context.Context) ([]Due, error) {
	for {
		due, err := r.Links.DueChecks(ctx, checkBatch, slices.Collect(maps.Keys(r.waiting)))
		switch {
		case err != nil || r.isServed:
			return due, err
		case len(due) > 0:
			if due = r.inTurn(due); len(due) > 0 {
				return due, nil
			}
		default: // but for accounts that wait
			clear(r.waiting)
			r.isServed = true
		}
	}
}

// inTurn returns the destinations of accounts that have not had their turns. The others follow when
// their leases end.
func (r *run) inTurn(due []Due) []Due {
	return slices.DeleteFunc(due, func(d Due) bool {
		r.turns[d.Account]++
		if r.turns[d.Account] >= perAccount {
			r.waiting[d.WorkspaceID] = true
		}
		return r.turns[d.Account] > perAccount
	})
}

// add adds the result of a check of the host to the batch.
func (r *run) add(h *host, d Due, a answer) {
	h.responded = h.responded || a.status != nil
	h.fellSilent = h.fellSilent || a.status == nil && d.Failures == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result{d, a, r.Now()})
}

// isDoubtful reports whether the server's own network is at fault: more hosts have fallen silent
// than respond. Hosts that failed before prove nothing, and neither does a single silent one: then
// the last verdict stands.
func (r *run) isDoubtful() bool {
	responding, silent := 0, 0
	for _, h := range r.hosts {
		switch {
		case h.responded:
			responding++
		case h.fellSilent:
			silent++
		}
	}
	if responding > 0 || silent > 1 {
		r.isNetworkDown.Store(silent > responding)
	}
	return r.isNetworkDown.Load()
}

// recordAll stores the results of the batch, once it is known whether they are doubtful.
func (r *run) recordAll(ctx context.Context) error {
	results, isDoubtful := r.results, r.isDoubtful()
	r.results = nil
	for _, one := range results {
		if err := r.record(ctx, one, isDoubtful); err != nil {
			return err
		}
	}
	return nil
}

// group gives the destinations to their hosts, and returns the hosts that have any.
func (r *run) group(due []Due) []*host {
	for _, h := range r.hosts {
		h.due = nil
	}
	var hosts []*host
	for _, d := range due {
		name := hostOf(d.URL)
		h, ok := r.hosts[name]
		if !ok {
			h = &host{}
			r.hosts[name] = h
		}
		if h.due = append(h.due, d); len(h.due) == 1 {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// hostOf is the name of the host that a URL leads to. Its ports are doors of one house.
func hostOf(original string) string {
	u, err := urlnorm.Canonical(original)
	if err != nil {
		return "" // from before the rules changed: all of them wait for each other
	}
	return u.Host()
}

// checkHost checks the host's destinations one after another. When the host needs a pause, the
// others are postponed.
func (r *run) checkHost(ctx context.Context, h *host) error {
	for i, d := range h.due {
		if !h.until.IsZero() {
			return r.postpone(ctx, h, h.due[i:])
		}
		if i == perHost || h.asked && r.sleep(ctx, pace) != nil {
			return nil
		}
		h.asked = true
		a := r.ask(ctx, d)
		if ctx.Err() != nil {
			return nil // the failure may be on our side
		}
		r.add(h, d, a)
		if a.rest > 0 {
			h.until = r.Now().Add(a.rest)
		}
	}
	return nil
}

// postpone postpones checks of a host with a pause to another run.
func (r *run) postpone(ctx context.Context, h *host, due []Due) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	until := h.until
	if soonest := r.Now().Add(minPause); until.Before(soonest) {
		until = soonest
	}
	return r.Links.PostponeChecks(ctx, due, until)
}
