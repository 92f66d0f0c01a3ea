package click

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/pause"
	"github.com/linkforge/linkforge/internal/wal"
)

const (
	// maxBatch bounds one transaction.
	maxBatch = 10_000
	// gather is how long the first click of a batch waits for others.
	gather = 20 * time.Millisecond
	// ingestDeadline bounds one attempt to write a batch, drainDeadline everything that is left at the end.
	ingestDeadline = 30 * time.Second
	drainDeadline  = 20 * time.Second
	// firstPause and longestPause lie between attempts while the database does not answer.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
	// ease is how many times as long as a batch took the next one waits while little waits and redirects want the processors: they
	// come first. The fuller the log, the less it waits.
	ease = 9
	// longestRest bounds that: the batch may have waited for a database that was away. It ends when the processors have been free
	// for a lull.
	longestRest = 15 * time.Second
	lull        = time.Second
	// turn is how long a batch may take while redirects go on wanting the processors: they are to have theirs at any time, not after
	// seconds. leastInTurn is what it may have however long that takes, since a part of the time is no click's; and once only so much of
	// the log is free as is scarce, whole batches are written, which cost less a click.
	turn        = 250 * time.Millisecond
	leastInTurn = 1000
	scarce      = 0.5
	// adoptEvery is how often a process looks for the logs of others that have died.
	adoptEvery = 10 * time.Second
	// defaultLogBytes bounds a log unless it is configured.
	defaultLogBytes = 1 << 30
)

// RecorderConfig is what a Recorder needs.
type RecorderConfig struct {
	// DB is the database.
	DB *db.DB
	// Dir is the folder of the logs, which the processes that share it have each a folder of their own in.
	Dir string
	// LogBytes bounds this process's log; zero means 1 GiB. A click that finds no room is lost, and counted as such.
	LogBytes int64
	// GiveBack returns what a process that has died had taken and not used; nil when there are no leases.
	GiveBack func(ctx context.Context, logID string, leases []hitquota.Lease) error
	// Log is told what goes wrong, once.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Recorder takes clicks off the path of the answer: Record appends them to a log that survives the process, and one
// goroutine, in Run, writes them to the database in batches.
type Recorder struct {
	RecorderConfig
	writer  writer
	journal *wal.Log
	// crowded says that the processors were wanted by many since it was asked last.
	crowded func() bool
	// pin is the oldest position that is still needed after it was ingested.
	pin atomic.Pointer[func() int64]

	mu     sync.Mutex // orders what is counted with what is appended
	record []byte     // the record that is being made
	full   bool       // the last click found no room
	closed bool

	handled                   atomic.Int64 // clicks of this log that the database has, or that were set aside
	recorded, lost            atomic.Int64
	ingested, batches, poison atomic.Int64
	position                  atomic.Int64 // what the database has
	oldest                    atomic.Int64 // when the oldest click that waits was recorded, in microseconds; zero when none does
	progress                  chan struct{}
	progressMu                sync.Mutex
	wake                      chan struct{} // a click waits
	rush                      chan struct{} // somebody waits for Flush
}

// NewRecorder makes this process's log.
func NewRecorder(c RecorderConfig) (*Recorder, error) {
	if c.LogBytes == 0 {
		c.LogBytes = defaultLogBytes
	}
	j, err := wal.Create(c.Dir, id.New(id.Log), c.LogBytes)
	if err != nil {
		return nil, err
	}
	return &Recorder{
		RecorderConfig: c, writer: writer{db: c.DB, now: c.Now}, journal: j, crowded: new(queue).isLong,
		progress: make(chan struct{}), wake: make(chan struct{}, 1), rush: make(chan struct{}, 1),
	}, nil
}

// Close leaves the log of a Recorder that did not run to whoever comes next.
func (r *Recorder) Close() error { return r.journal.Close() }

// LogID names this process's log.
func (r *Recorder) LogID() string { return r.journal.ID() }

// Pin keeps what lies in the log from the position on that oldest tells, even when it has been ingested.
func (r *Recorder) Pin(oldest func() int64) { r.pin.Store(&oldest) }

// Record keeps a click that is about to be answered, and returns its position in the log. Where there is no room for it,
// the redirect is answered all the same, and the click is lost: that is counted, and logged when it begins and ends.
func (r *Recorder) Record(c *Click) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = appendClick(r.record[:0], c)
	end, err := r.append()
	if err != nil {
		r.lose(err)
		return end
	}
	if r.full {
		r.full = false
		r.Log.Info("clicks are recorded again", "lost_so_far", r.lost.Load())
	}
	r.recorded.Add(1)
	r.oldest.CompareAndSwap(0, c.ClickedAt.UnixMicro())
	signal(r.wake)
	return end
}

// Note keeps that a lease is about to be taken, and returns its position in the log.
func (r *Recorder) Note(l hitquota.Lease) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = appendLease(r.record[:0], &l)
	return r.append()
}

func (r *Recorder) append() (int64, error) {
	if r.closed {
		return 0, errors.New("the click log is closed")
	}
	return r.journal.Append(r.record)
}

func (r *Recorder) lose(err error) {
	r.lost.Add(1)
	if !r.full {
		r.full = true
		r.Log.Error("clicks are lost: the log takes no more", "error", err)
	}
}

// RecorderStats tell how the log does.
type RecorderStats struct {
	// Recorded and Lost count clicks since the process began; Ingested counts those that it has written to the database, in so
	// many Batches: also clicks of processes that have died. Waiting is how many of its own are still to be.
	Recorded, Ingested, Lost, Batches, Waiting int64
	// Poison counts records that were set aside.
	Poison int64
	// Lag is how old the oldest click is that the database does not have.
	Lag time.Duration
	// LogBytes is the room that the log takes.
	LogBytes int64
}

// Stats tell how the log does.
func (r *Recorder) Stats() RecorderStats {
	return RecorderStats{
		Recorded: r.recorded.Load(), Ingested: r.ingested.Load(), Lost: r.lost.Load(), Batches: r.batches.Load(),
		Waiting: max(0, r.recorded.Load()-r.handled.Load()),
		Poison:  r.poison.Load(), Lag: r.Lag(), LogBytes: r.journal.Bytes(),
	}
}

// End is the position that the log has reached.
func (r *Recorder) End() int64 { return r.journal.End() }

// Lag is how old the oldest click is that the database does not have.
func (r *Recorder) Lag() time.Duration {
	if oldest := r.oldest.Load(); oldest > 0 {
		return max(0, r.Now().Sub(time.UnixMicro(oldest)))
	}
	return 0
}

// Flush waits until the database has every click recorded so far.
func (r *Recorder) Flush(ctx context.Context) error {
	target := r.journal.End()
	for {
		r.progressMu.Lock()
		progress := r.progress
		r.progressMu.Unlock()
		if r.position.Load() >= target {
			return nil
		}
		signal(r.rush)
		signal(r.wake)
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("waiting for clicks to be written: %w", ctx.Err())
		}
	}
}

// Run writes clicks until the context ends, and then what is left; it adopts the logs of processes that have died. What
// the database does not take in time stays in the log, for the next process.
func (r *Recorder) Run(ctx context.Context) error {
	var adopting sync.WaitGroup
	adopting.Go(func() {
		for pause.For(ctx, adoptEvery) == nil {
			if err := r.Adopt(ctx); err != nil && ctx.Err() == nil {
				r.Log.ErrorContext(ctx, "the log of a process that has died is not ingested", "error", err)
			}
		}
	})
	defer adopting.Wait()
	for most := maxBatch; r.gather(ctx); {
		before, began := r.handled.Load(), time.Now() // not the injected clock: this is about the machine's load
		r.ingestNext(ctx, most)
		most = r.rest(ctx, r.handled.Load()-before, time.Since(began))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainDeadline) // not ctx, by which adopting ends
	defer cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.ingestNext(last, maxBatch) {
	}
	return r.leave(last)
}

// leave removes the log when the database has all of it and every lease in it has ended, and else leaves it to whoever comes
// next.
func (r *Recorder) leave(ctx context.Context) error {
	if r.needed(r.position.Load()) >= r.journal.End() {
		return r.remove(ctx, r.journal)
	}
	waiting := r.recorded.Load() - r.handled.Load()
	r.Log.WarnContext(ctx, "the click log stays for the next start", "clicks", waiting, "log", r.LogID())
	return r.journal.Close()
}

// needed is the position from which on the log is needed, once the database has it up to another.
func (r *Recorder) needed(position int64) int64 {
	if pin := r.pin.Load(); pin != nil {
		return min(position, (*pin)())
	}
	return position
}

// remove removes a log that the database has all of, and then what the database knows of it: in this order, so that
// nobody finds a log that the database knows nothing of.
func (r *Recorder) remove(ctx context.Context, j *wal.Log) error {
	if err := j.Remove(); err != nil {
		return err
	}
	_, err := r.DB.NewDelete().Table("click_logs").Where("id = ?", j.ID()).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("forgetting a click log: %w", err)
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
	if r.recorded.Load()-r.handled.Load() >= maxBatch { // a whole batch is there already
		return true
	}
	r.wait(ctx, gather)
	return ctx.Err() == nil
}

// rest leaves the processors to the redirects for a while, if these want them and nobody waits for the clicks: a click is safe in
// the log. It returns how many records the next batch may have, when so many clicks have taken so long.
func (r *Recorder) rest(ctx context.Context, clicks int64, took time.Duration) (most int) {
	free := 1 - float64(r.journal.Bytes())/float64(r.LogBytes)
	r.crowded() // from now on
	for rest := min(longestRest, time.Duration(ease*max(0, free)*float64(took))); rest > 0; rest -= lull {
		if !r.wait(ctx, min(rest, lull)) || !r.crowded() {
			return maxBatch
		}
	}
	if clicks == 0 || free < scarce {
		return maxBatch
	}
	n := float64(clicks) * float64(turn) / float64(max(took, 1))
	return int(min(max(n, leastInTurn), maxBatch))
}

// wait reports false when it ended early: somebody waits for Flush, or the context ended.
func (r *Recorder) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.rush:
	case <-ctx.Done():
	}
	return false
}

// ingestNext writes the next batch, of so many records at most, however often it takes, and reports whether it did: false when
// nothing waits or the context ended.
func (r *Recorder) ingestNext(ctx context.Context, most int) bool {
	b, err := r.next(r.journal, r.position.Load(), most)
	if err != nil {
		r.Log.ErrorContext(ctx, "the click log cannot be read", "error", err)
		return false
	}
	if b.next == r.position.Load() || !r.persist(ctx, b) {
		return false
	}
	r.moveTo(b)
	if len(b.clicks) == 0 || b.next < r.journal.End() {
		signal(r.wake)
	}
	return true
}

// moveTo says that the database has the batch.
func (r *Recorder) moveTo(b *batch) {
	r.mu.Lock()
	r.position.Store(b.next)
	if r.handled.Add(int64(len(b.clicks))); b.next == r.journal.End() {
		r.handled.Store(r.recorded.Load()) // what could not be read was set aside
		r.oldest.Store(0)
	} else if len(b.clicks) > 0 {
		r.oldest.Store(b.clicks[len(b.clicks)-1].ClickedAt.UnixMicro())
	}
	r.mu.Unlock()
	r.progressMu.Lock()
	close(r.progress)
	r.progress = make(chan struct{})
	r.progressMu.Unlock()
	if err := r.journal.Release(r.needed(b.next)); err != nil {
		r.Log.Error("the click log keeps what it need not", "error", err)
	}
}

// persist tries until the database has the batch, and reports false when the context ended first. An outage is logged
// once.
func (r *Recorder) persist(ctx context.Context, b *batch) bool {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := r.ingest(ctx, b)
		if err == nil && wait > firstPause {
			r.Log.InfoContext(ctx, "clicks are written again", "clicks", len(b.clicks))
		}
		if err == nil {
			r.batches.Add(1)
			return true
		}
		if wait == firstPause && ctx.Err() == nil {
			r.Log.ErrorContext(ctx, "clicks wait for the database", "clicks", len(b.clicks), "error", err)
		}
		if pause.For(ctx, wait) != nil {
			return false
		}
	}
}

func (r *Recorder) ingest(ctx context.Context, b *batch) error {
	attempt, cancel := context.WithTimeout(ctx, ingestDeadline)
	defer cancel()
	err := r.writer.write(attempt, b.logID, b.next, b.clicks)
	if db.IsRefused(err) && len(b.clicks) > 0 {
		return r.ingestHalves(ctx, b)
	}
	if err == nil {
		r.ingested.Add(int64(len(b.clicks)))
	}
	return err
}

// signal wakes whoever waits on the channel, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
