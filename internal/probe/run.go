package probe

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

const (
	// batchSize is how many destinations are taken at once, atOnce how many hosts are asked at the
	// same time.
	batchSize = 500
	atOnce    = 8
	// perHost is how many destinations of one host are asked in a batch. The others come with later
	// batches: whoever has a hundred thousand links to one host keeps nobody else waiting.
	perHost = 60
	// batchDeadline ends a batch before somebody else may take what is left of it.
	batchDeadline = link.CheckLease - time.Minute
)

// Run asks all destinations that are due, and returns when none is left or its time is up: then the
// next run goes on. It returns an error when it is interrupted, or when the database does not
// answer.
func (c *Checker) Run(ctx context.Context) error {
	r := &run{Checker: c, hosts: map[string]*host{}}
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
	// hosts are those that the run has met, by name.
	hosts map[string]*host
}

// host is what a run knows of a host. One goroutine has it at a time.
type host struct {
	// due are its destinations in this batch.
	due []link.Due
	// asked says that it has been asked before, until when it is to be left alone; zero means that
	// it may be asked.
	asked bool
	until time.Time
}

// batch asks the next destinations, and reports whether there were any.
func (r *run) batch(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchDeadline)
	defer cancel()
	due, err := r.Links.DueChecks(ctx, batchSize)
	if err != nil || len(due) == 0 {
		return false, err
	}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for _, h := range r.group(due) {
		asking.Go(func() error { return r.askHost(ctx, h) })
	}
	return true, asking.Wait()
}

// group gives the destinations to their hosts, and returns the hosts that have any.
func (r *run) group(due []link.Due) []*host {
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

// askHost asks the host's destinations one after another. Once it is to be left alone, the others
// are put off.
func (r *run) askHost(ctx context.Context, h *host) error {
	for i, d := range h.due {
		if !h.until.IsZero() {
			return r.putOff(ctx, h, h.due[i:])
		}
		if i == perHost || h.asked && r.sleep(ctx, pace) != nil {
			return nil
		}
		h.asked = true
		a := r.ask(ctx, d)
		if ctx.Err() != nil {
			return nil // that there is no answer may be our doing
		}
		if err := r.record(ctx, d, a); err != nil {
			return err
		}
		if a.rest > 0 {
			h.until = r.Now().Add(a.rest)
		}
	}
	return nil
}

// putOff has destinations of a host that is to be left alone be asked later, in another run.
func (r *run) putOff(ctx context.Context, h *host, due []link.Due) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	until := h.until
	if soonest := r.Now().Add(shortestRest); until.Before(soonest) {
		until = soonest
	}
	return r.Links.PostponeChecks(ctx, due, until)
}
