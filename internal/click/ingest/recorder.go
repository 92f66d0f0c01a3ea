// Package ingest takes clicks from redirects to the database exactly once: the click log, which
// survives a crash; the recorder, which writes the log's clicks in batches; adoption of the logs of
// dead processes; and the daily keys that recognize repeated visitors. It does not query clicks:
// package stats does. Package redirect records clicks, and hitquota records its leases in the same
// log.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

const (
	// maxBatch bounds one transaction.
	maxBatch = 10_000
	// batchDelay is how long the first click of a batch waits for others.
	batchDelay = 20 * time.Millisecond
	// ingestDeadline bounds one attempt to write a batch, drainDeadline all batches at shutdown.
	ingestDeadline = 30 * time.Second
	drainDeadline  = 20 * time.Second
	// minRetryPause and maxRetryPause bound the pauses between attempts while the database is
	// unavailable.
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// Leases owns the leases whose records are in click logs; hitquota.Leases implements it.
type Leases interface {
	// Pin is the position of the oldest open lease in this process's log, which is retained from
	// that position.
	Pin() int64
	// Recover returns the unused hits of the leases of a process that has died.
	Recover(ctx context.Context, logID string, leases []hitquota.Lease) error
	// Carry is called before logs of dead processes are ingested: count returns their clicks of a
	// month that the database does not have, by link.
	Carry(ctx context.Context, count func(click.Month) (map[string]click.MonthCount, error)) error
}

// RecorderConfig configures a Recorder.
type RecorderConfig struct {
	// Clicks is where the clicks are written.
	Clicks clickstore.Store
	// Ledger has the positions of the logs.
	Ledger *clickstore.Ledger
	// Log is this process's click log.
	Log *Log
	// Leases owns the leases in the logs; nil when there are none.
	Leases Leases
}

// Recorder ingests the click log of this process, and adopts those of processes that have died: one
// goroutine, in Run, writes the clicks to their store in batches.
type Recorder struct {
	*Log
	clicks clickstore.Store
	ledger *clickstore.Ledger
	leases Leases
	pace   pace

	recent                    recent
	ingested, batches, poison atomic.Int64
	aside                     int64 // records of this log that were set aside since all were read
}

// NewRecorder returns a Recorder of a log.
func NewRecorder(c RecorderConfig) *Recorder {
	return &Recorder{
		Log: c.Log, clicks: c.Clicks, ledger: c.Ledger, leases: c.Leases, pace: newPace(c.Log.rush),
	}
}

// RecorderStats are the statistics of a recorder.
type RecorderStats struct {
	// Recorded and Lost count clicks since the process began. Ingested counts the clicks that it
	// has written to the database, including those of dead processes, in Batches batches. Waiting
	// is the number of its clicks that are not in the database yet.
	Recorded, Ingested, Lost, Batches, Waiting int64
	// Recent is how many clicks it has written lately, including those of dead processes: within
	// recentSpan, or twice that.
	Recent int64
	// Poison counts records that were set aside.
	Poison int64
	// Lag is how old the oldest click is that the database does not have.
	Lag time.Duration
	// LogBytes is the room that the log takes.
	LogBytes int64
}

// Stats returns the statistics.
func (r *Recorder) Stats() RecorderStats {
	return RecorderStats{
		Recent:   r.recent.count(r.Now()),
		Recorded: r.recorded.Load(), Ingested: r.ingested.Load(), Lost: r.lost.Load(), Batches: r.batches.Load(),
		Waiting: max(0, r.recorded.Load()-r.handled.Load()),
		Poison:  r.poison.Load(), Lag: r.Lag(), LogBytes: r.journal.Bytes(),
	}
}

// Run writes clicks until the context ends, and then writes the remaining ones. It also adopts the
// logs of dead processes. Clicks that the database does not accept in time stay in the log, for the
// next process.
func (r *Recorder) Run(ctx context.Context) error {
	var adopting sync.WaitGroup
	adopting.Go(func() {
		for ctx.Err() == nil {
			if err := r.Adopt(ctx); err != nil && ctx.Err() == nil {
				r.Logger.Log(ctx, errs.LogLevel(err), "adopting an orphaned click log failed", "error", err)
			}
			_ = poll.Wait(ctx, adoptEvery)
		}
	})
	adopting.Go(func() { r.watch(ctx) })
	adopting.Go(func() { r.sync(ctx) })
	defer adopting.Wait()
	for most := maxBatch; r.batchDelay(ctx); {
		before, began := r.handled.Load(), time.Now() // not the injected clock: this is about the machine's load
		r.ingestNext(ctx, most)
		most = r.pace.rest(ctx, r.handled.Load()-before, time.Since(began), r.free())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainDeadline) // not ctx, which also ends adoption
	defer cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.ingestNext(last, maxBatch) {
	}
	return r.leave(last)
}

// free is the share of the room of the log that is free.
func (r *Recorder) free() float64 { return 1 - float64(r.journal.Bytes())/float64(r.MaxBytes) }

// leave removes the log if all its clicks are in the database and all its leases have ended.
// Otherwise another process adopts it.
func (r *Recorder) leave(ctx context.Context) error {
	if r.needed(r.position.Load()) >= r.journal.End() {
		return r.journal.Remove() // its row stays: a copy of the log may be restored
	}
	waiting := r.recorded.Load() - r.handled.Load()
	r.Logger.WarnContext(ctx, "the click log stays for the next start", "clicks", waiting, "log", r.LogID())
	return r.journal.Close()
}

// needed returns the position from which the log is retained, when it is ingested up to position.
func (r *Recorder) needed(position int64) int64 {
	if r.leases == nil {
		return position
	}
	return min(position, r.leases.Pin())
}

// batchDelay waits for clicks, and a little longer for more of them. It returns false when the
// context ends.
func (r *Recorder) batchDelay(ctx context.Context) bool {
	select {
	case <-r.wake:
	case <-ctx.Done():
		return false
	}
	if r.recorded.Load()-r.handled.Load() >= maxBatch { // a full batch
		return true
	}
	r.pace.wait(ctx, batchDelay)
	return ctx.Err() == nil
}

// ingestNext writes the next batch of at most most records, and retries until it succeeds. It
// returns false when no record waits, or the context ended.
func (r *Recorder) ingestNext(ctx context.Context, most int) bool {
	b, err := r.next(r.journal, r.position.Load(), most)
	if err != nil {
		r.Logger.ErrorContext(ctx, "the click log cannot be read", "error", err)
		return false
	}
	if b.To == r.position.Load() || !r.persist(ctx, b) {
		return false
	}
	r.moveTo(b)
	if len(b.Clicks) == 0 || b.To < r.journal.End() {
		poll.Signal(r.wake)
	}
	return true
}

// recentSpan is longer than floors of hits are used: a floor that was read before clicks were
// ingested does not contain them.
const recentSpan = 2 * time.Second

// recent counts clicks of the last spans.
type recent struct {
	mu         sync.Mutex
	began      time.Time
	last, this int64
}

// count returns the clicks of this span and the last one, after it has added some.
func (c *recent) count(now time.Time, more ...int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.began); age >= recentSpan {
		if c.last = c.this; age >= 2*recentSpan {
			c.last = 0
		}
		c.began, c.this = now, 0
	}
	for _, n := range more {
		c.this += n
	}
	return c.last + c.this
}

// moveTo says that the database has the batch.
func (r *Recorder) moveTo(b *batch) {
	r.mu.Lock()
	r.position.Store(b.To)
	if r.handled.Add(int64(len(b.Clicks))); b.To == r.journal.End() {
		r.countMissing()
		r.oldest.Store(0)
	} else if len(b.Clicks) > 0 {
		r.oldest.Store(b.Clicks[len(b.Clicks)-1].ClickedAt.UnixMicro())
	}
	r.mu.Unlock()
	r.progressMu.Lock()
	close(r.progress)
	r.progress = make(chan struct{})
	r.progressMu.Unlock()
	if err := r.journal.Release(r.needed(b.To)); err != nil {
		r.Logger.Error("the click log keeps what it need not", "error", err)
	}
}

// countMissing counts as lost the recorded clicks that could not be read again, except clicks that
// were set aside. All records have been read, and none is added meanwhile.
func (r *Recorder) countMissing() {
	missing := r.recorded.Load() - r.handled.Load() - r.aside
	if r.handled.Store(r.recorded.Load()); missing > 0 {
		r.lost.Add(missing)
		r.Logger.Error("clicks are lost: the click log was removed, truncated or damaged", "clicks", missing)
	}
	r.aside = 0
}

// checkEvery is how often a process checks the files of its log.
const checkEvery = 500 * time.Millisecond

// watch starts a new segment after files of the log were removed or truncated, and has the recorder
// count lost clicks.
func (r *Recorder) watch(ctx context.Context) {
	for poll.Wait(ctx, checkEvery) == nil {
		repaired, err := r.journal.Check()
		if err != nil {
			r.Logger.ErrorContext(ctx, "the click log cannot be repaired: clicks are lost", "error", err)
		}
		if repaired {
			r.Logger.ErrorContext(ctx, "files of the click log were removed or truncated: a new one was begun",
				"log", r.LogID())
			poll.Signal(r.wake)
		}
	}
}

// persist tries until the database has the batch, and reports false when the context ended first.
// An outage is logged once.
func (r *Recorder) persist(ctx context.Context, b *batch) bool {
	for wait := minRetryPause; ; wait = min(2*wait, maxRetryPause) {
		err := r.ingest(ctx, b)
		if err == nil && wait > minRetryPause {
			r.Logger.InfoContext(ctx, "clicks are written again", "clicks", len(b.Clicks))
		}
		if err == nil {
			r.batches.Add(1)
			return true
		}
		if wait == minRetryPause && ctx.Err() == nil {
			r.Logger.Log(ctx, errs.LogLevel(err), "clicks wait for the database", "clicks", len(b.Clicks), "error", err)
		}
		if poll.Wait(ctx, wait) != nil {
			return false
		}
	}
}

// errPanic is the error of a batch whose content made the writer panic: no content of a log can
// stop the server.
var errPanic = errors.New("panic while clicks were written")

func (r *Recorder) write(ctx context.Context, b *batch) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errPanic, value)
		}
	}()
	return r.clicks.Write(ctx, b.Batch)
}

func (r *Recorder) ingest(ctx context.Context, b *batch) error {
	attempt, cancel := context.WithTimeout(ctx, ingestDeadline)
	defer cancel()
	err := r.setForeignAside(attempt, b)
	if err == nil {
		err = r.write(attempt, b)
	}
	if (db.IsRefused(err) || errors.Is(err, clickstore.ErrRefused) || errors.Is(err, errPanic)) && len(b.Clicks) > 0 {
		return r.ingestHalves(ctx, b)
	}
	if err == nil {
		r.ingested.Add(int64(len(b.Clicks)))
		r.recent.count(r.Now(), int64(len(b.Clicks)))
	}
	return err
}
