package click

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/pause"
)

const (
	// maxWaiting bounds the clicks that wait for the database: about 20 MB. Beyond it redirects are refused
	// rather than answered and not counted.
	maxWaiting = 100_000
	// maxBatch bounds one transaction.
	maxBatch = 1000
	// gather is how long the first click of a batch waits for others.
	gather = 20 * time.Millisecond
	// ingestDeadline bounds one attempt to write a batch, drainDeadline everything that is left at the end.
	ingestDeadline = 10 * time.Second
	drainDeadline  = 20 * time.Second
	// firstPause and longestPause lie between attempts while the database does not answer.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Recorder takes clicks off the path of the answer: Record queues them, and the one goroutine in Run writes them
// to the database in batches.
type Recorder struct {
	db  *db.DB
	log *slog.Logger
	// logID and the position of a click in this process's log name the click once and for all.
	logID string

	mu       sync.Mutex
	waiting  []Click
	recorded int64 // clicks ever taken
	ingested int64 // clicks the database has
	closed   bool
	progress chan struct{} // closed, and made anew, whenever ingested grows

	// batch is being written. It stays the same until it is, since an attempt whose answer got lost may have
	// succeeded. Only Run's goroutine touches it.
	batch []Click

	wake chan struct{} // a click waits
	rush chan struct{} // somebody waits for Flush
}

// NewRecorder prepares a Recorder. Clicks stay in memory until Run writes them.
func NewRecorder(d *db.DB, log *slog.Logger) *Recorder {
	return &Recorder{
		db: d, log: log, logID: id.New(id.Log),
		progress: make(chan struct{}), wake: make(chan struct{}, 1), rush: make(chan struct{}, 1),
	}
}

// Record takes a click that is about to be answered. It returns Unavailable when no more can wait: then the
// redirect must not be answered.
func (r *Recorder) Record(c Click) error {
	c.ID = id.New(id.Click)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) >= maxWaiting {
		return errs.New(errs.Unavailable, "Clicks cannot be counted at this moment.")
	}
	r.waiting = append(r.waiting, c)
	r.recorded++
	signal(r.wake)
	return nil
}

// Flush waits until the database has every click recorded so far.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	target := r.recorded
	r.mu.Unlock()
	for {
		r.mu.Lock()
		done, progress := r.ingested >= target, r.progress
		r.mu.Unlock()
		if done {
			return nil
		}
		signal(r.rush)
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("waiting for clicks to be written: %w", ctx.Err())
		}
	}
}

// Run writes clicks until the context ends, and then what is left. Afterwards nothing more is taken. It returns
// an error when clicks were lost.
func (r *Recorder) Run(ctx context.Context) error {
	for r.gather(ctx) {
		r.ingestNext(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainDeadline)
	defer cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.ingestNext(ctx) {
	}
	if lost := r.recorded - r.ingested; lost > 0 {
		return fmt.Errorf("%d clicks were lost: the database did not take them in time", lost)
	}
	return nil
}

// gather waits for clicks, and a little longer for more of them. It returns false when the context ends.
func (r *Recorder) gather(ctx context.Context) bool {
	select {
	case <-r.wake:
	case <-ctx.Done():
		return false
	}
	gathered := time.NewTimer(gather)
	defer gathered.Stop()
	select {
	case <-gathered.C:
	case <-r.rush:
	case <-ctx.Done():
	}
	return true
}

// ingestNext writes the next batch, however often it takes, and reports whether it did: false when nothing
// waits or the context ended.
func (r *Recorder) ingestNext(ctx context.Context) bool {
	if r.batch == nil {
		r.batch = r.next()
	}
	if len(r.batch) == 0 {
		r.batch = nil
		return false
	}
	if !r.persist(ctx) {
		return false
	}
	r.forget(len(r.batch))
	r.batch = nil
	return true
}

// persist tries until the database has the batch, and reports false when the context ended first. An outage is
// logged once.
func (r *Recorder) persist(ctx context.Context) bool {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := r.ingest(ctx)
		if err == nil && wait > firstPause {
			r.log.InfoContext(ctx, "clicks are written again", "clicks", len(r.batch))
		}
		if err == nil {
			return true
		}
		if wait == firstPause && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "clicks wait for the database", "clicks", len(r.batch), "error", err)
		}
		if pause.For(ctx, wait) != nil {
			return false
		}
	}
}

func (r *Recorder) ingest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ingestDeadline)
	defer cancel()
	return ingest(ctx, r.db, r.logID, r.ingested+int64(len(r.batch)), r.batch)
}

// next is the batch to be written next.
func (r *Recorder) next() []Click {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[:min(len(r.waiting), maxBatch)]
}

func (r *Recorder) forget(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = r.waiting[n:] // appending copies what is left once the array is full, and lets go of the rest
	r.ingested += int64(n)
	close(r.progress)
	r.progress = make(chan struct{})
	if len(r.waiting) > 0 {
		signal(r.wake)
	}
}

// signal wakes whoever waits on the channel, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
