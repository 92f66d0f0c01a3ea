package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// maxReading is how many readings of one kind a node has in flight.
	maxReading = 4
	// fullPause is the time until a reading looks for room again.
	fullPause = time.Second
	// minReadPause and maxReadPause bound the pause after failed readings of a webhook.
	minReadPause = time.Second
	maxReadPause = time.Minute
)

// progress is the result of a reading.
type progress int

const (
	// caughtUp: nothing is left to read.
	caughtUp progress = iota
	// hasMore: the next reading can begin at once.
	hasMore
	// isFull: enough deliveries wait.
	isFull
)

// readings are the webhooks that are behind a log, and their readings in flight: at most one of an account, so that it
// does not delay others. Accounts take turns.
type readings struct {
	log *slog.Logger
	now func() time.Time
	// read creates the next deliveries of a webhook.
	read func(ctx context.Context, webhookID string) (progress, error)
	wake chan struct{}

	mu sync.Mutex
	// behind are webhooks to read, by id. A webhook is not in it while it is being read, unless more was added.
	behind map[string]backlog
	// busy has the accounts with a reading in flight, turns the number of the last reading of accounts by started.
	busy    map[string]bool
	turns   map[string]int
	started int
	flights sync.WaitGroup
}

// backlog is what is to be read for a webhook.
type backlog struct {
	account     string
	pausedUntil time.Time
	// failures is the number of consecutive failed readings.
	failures int
}

func newReadings(
	log *slog.Logger, now func() time.Time, read func(context.Context, string) (progress, error),
) *readings {
	return &readings{
		log: log, now: now, read: read, wake: make(chan struct{}, 1), behind: map[string]backlog{}, busy: map[string]bool{},
		turns: map[string]int{},
	}
}

// add marks webhooks as behind, and has run look for readings that can start. Pauses continue.
func (r *readings) add(webhooks ...*target) {
	defer poll.Signal(r.wake)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range webhooks {
		if _, known := r.behind[t.ID]; !known {
			r.behind[t.ID] = backlog{account: t.Account}
		}
	}
}

// run starts readings until the context ends, and waits for those in flight.
func (r *readings) run(ctx context.Context) {
	defer r.flights.Wait()
	for ctx.Err() == nil {
		for webhookID, b := range r.take() {
			r.flights.Go(func() {
				defer poll.Signal(r.wake)
				p := caughtUp
				err := recovered(func() (err error) {
					p, err = r.read(ctx, webhookID)
					return err
				})
				r.finish(ctx, webhookID, b, p, err)
			})
		}
		select {
		case <-r.wake:
		case <-time.After(fullPause): // pauses end
		case <-ctx.Done():
		}
	}
}

// take returns the readings that can start, and counts them as in flight.
func (r *readings) take() map[string]backlog {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken, now := map[string]backlog{}, r.now()
	for _, webhookID := range slices.SortedFunc(maps.Keys(r.behind), func(a, b string) int {
		return cmp.Compare(r.turns[r.behind[a].account], r.turns[r.behind[b].account])
	}) {
		if len(r.busy) == maxReading {
			break
		}
		if b := r.behind[webhookID]; !r.busy[b.account] && !now.Before(b.pausedUntil) {
			r.started++
			r.busy[b.account], r.turns[b.account], taken[webhookID] = true, r.started, b
			delete(r.behind, webhookID)
		}
	}
	if len(r.behind) == 0 {
		clear(r.turns)
	}
	return taken
}

// finish ends a reading. Unless it caught up, the webhook stays behind.
func (r *readings) finish(ctx context.Context, webhookID string, b backlog, p progress, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, b.account)
	switch {
	case err != nil:
		if b.failures == 0 && ctx.Err() == nil {
			r.log.Log(ctx, errs.LogLevel(err), "reading for a webhook failed", "webhook", webhookID, "error", err)
		}
		pause := min(minReadPause<<min(b.failures, 10), maxReadPause)
		r.behind[webhookID] = backlog{b.account, r.now().Add(pause), b.failures + 1}
	case p == isFull:
		r.behind[webhookID] = backlog{account: b.account, pausedUntil: r.now().Add(fullPause)}
	case p == hasMore:
		r.behind[webhookID] = backlog{account: b.account}
	}
}

// recovered calls f and returns a panic as an error, with its stack, so that other webhooks continue.
func recovered(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := errs.Panic(value)
			err = fmt.Errorf("%w\n%s", p, p.Stack)
		}
	}()
	return f()
}
