package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/wal"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// defaultLogBytes bounds a log unless it is configured.
const defaultLogBytes = 1 << 30

// LogConfig configures a Log.
type LogConfig struct {
	// Dir is the folder of the logs. Each of the processes that share it has a folder of its own in
	// it.
	Dir string
	// MaxBytes bounds this process's log; zero means 1 GiB. A click that does not fit is lost, and
	// counted as such.
	MaxBytes int64
	// Sync is when appended records are written to the disk; empty means SyncOS.
	Sync Sync
	// Logger logs an error once, until it is over.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Log is the click log of this process. Record appends clicks to it, off the path of the answer,
// and they survive the process; a Recorder writes them to the database.
type Log struct {
	LogConfig
	journal *wal.Log
	syncs   *syncs

	mu     sync.Mutex // keeps counts consistent with appended records
	buffer []byte     // the encoded record
	full   bool       // the last click did not fit
	closed bool

	handled        atomic.Int64 // clicks of this log that the database has, or that were set aside
	recorded, lost atomic.Int64
	position       atomic.Int64 // end of the ingested records
	oldest         atomic.Int64 // when the oldest waiting click was recorded, in microseconds; zero when none waits
	progress       chan struct{}
	progressMu     sync.Mutex
	wake           chan struct{} // a click waits
	rush           chan struct{} // a caller waits for Flush
}

// OpenLog creates this process's log.
func OpenLog(c LogConfig) (*Log, error) {
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultLogBytes
	}
	j, err := wal.Create(c.Dir, id.New(id.Log), c.MaxBytes)
	if err != nil {
		return nil, err
	}
	j.Durable = c.Sync == SyncInterval || c.Sync == SyncAlways
	return &Log{
		LogConfig: c, journal: j, syncs: newSyncs(),
		progress: make(chan struct{}), wake: make(chan struct{}, 1), rush: make(chan struct{}, 1),
	}, nil
}

// Close closes a log that no Recorder runs for. Another process adopts it.
func (l *Log) Close() error { return l.journal.Close() }

// LogID names this process's log.
func (l *Log) LogID() string { return l.journal.ID() }

// Record keeps a click that is about to be answered, and returns its position in the log. Where
// there is no room for it, the redirect is answered all the same, and the click is lost: that is
// counted, and logged when it begins and ends.
func (l *Log) Record(c *click.Click) int64 {
	end := l.record(c)
	if l.Sync == SyncAlways {
		l.syncs.await(end)
	}
	return end
}

func (l *Log) record(c *click.Click) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = appendClick(l.buffer[:0], c)
	end, err := l.append()
	if err != nil {
		l.lose(err)
		return end
	}
	if l.full {
		l.full = false
		l.Logger.Info("clicks are recorded again", "lost_so_far", l.lost.Load())
	}
	l.recorded.Add(1)
	l.oldest.CompareAndSwap(0, c.ClickedAt.UnixMicro())
	poll.Signal(l.wake)
	return end
}

// Note keeps that a lease is about to be taken or, with no hits, was returned.
func (l *Log) Note(lease hitquota.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = appendLease(l.buffer[:0], &lease)
	_, err := l.append()
	return err
}

func (l *Log) append() (int64, error) {
	if l.closed {
		return 0, errors.New("the click log is closed")
	}
	return l.journal.Append(l.buffer)
}

func (l *Log) lose(err error) {
	l.lost.Add(1)
	if !l.full {
		l.full = true
		l.Logger.Error("clicks are lost: the log takes no more", "error", err)
	}
}

// End is the position that the log has reached.
func (l *Log) End() int64 { return l.journal.End() }

// Span returns the position that the database has reached in the log, its end, and how many bytes
// it may retain.
func (l *Log) Span() (ingested, end, capacity int64) {
	return l.position.Load(), l.journal.End(), l.MaxBytes
}

// Waiting counts the clicks behind a position since an instant, by link. The database has a batch a
// little earlier than Span says so: only the position that was read with the database's clicks
// counts none of them twice.
func (l *Log) Waiting(position int64, since time.Time) (map[string]click.MonthCount, error) {
	counts := map[string]click.MonthCount{}
	if position == l.journal.End() {
		return counts, nil
	}
	return counts, countClicks(l.journal, position, since, counts)
}

// countClicks adds the clicks of a log behind a position, since an instant, to counts by link.
func countClicks(j *wal.Log, position int64, since time.Time, counts map[string]click.MonthCount) error {
	for {
		chunk, err := j.Read(position, maxBatch)
		if err != nil || chunk.Next == position {
			return err
		}
		position = chunk.Next
		for _, record := range chunk.Records {
			if c, _, err := parseRecord(record.Data); err == nil && c != nil && !c.ClickedAt.Before(since) {
				n := counts[c.LinkID]
				if n.Clicks++; c.HitLease < 0 {
					n.Outage++
				}
				counts[c.LinkID] = n
			}
		}
	}
}

// Lag is how old the oldest click is that the database does not have.
func (l *Log) Lag() time.Duration {
	if oldest := l.oldest.Load(); oldest > 0 {
		return max(0, l.Now().Sub(time.UnixMicro(oldest)))
	}
	return 0
}

// Flush waits until all clicks recorded so far are in the database.
func (l *Log) Flush(ctx context.Context) error {
	target := l.journal.End()
	for {
		l.progressMu.Lock()
		progress := l.progress
		l.progressMu.Unlock()
		if l.position.Load() >= target {
			return nil
		}
		poll.Signal(l.rush)
		poll.Signal(l.wake)
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("waiting for clicks to be written: %w", ctx.Err())
		}
	}
}
