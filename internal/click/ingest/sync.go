package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

// Sync is when the records of a click log are written to the disk, and so survive a loss of power.
type Sync string

const (
	// SyncOS leaves it to the kernel: usually within 30 seconds.
	SyncOS Sync = "os"
	// SyncInterval writes every syncInterval. No request waits.
	SyncInterval Sync = "interval"
	// SyncAlways writes before the response: concurrent requests share one write.
	SyncAlways Sync = "always"
)

const syncInterval = 100 * time.Millisecond

// syncs is the progress of writing to the disk.
type syncs struct {
	mu      sync.Mutex
	changed *sync.Cond
	synced  int64         // position that is on the disk
	ended   bool          // nothing is written any more
	wake    chan struct{} // a request waits
}

func newSyncs() *syncs {
	s := &syncs{wake: make(chan struct{}, 1)}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// await waits until the position is on the disk.
func (s *syncs) await(position int64) {
	poll.Signal(s.wake)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.synced < position && !s.ended {
		s.changed.Wait()
	}
}

func (s *syncs) advance(position int64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.ended = max(s.synced, position), s.ended || ended
	s.changed.Broadcast()
}

// sync writes the log to the disk, as configured, until the context ends. Requests that wait for a
// write that fails are answered all the same: the error is logged.
func (l *Log) sync(ctx context.Context) {
	defer l.syncs.advance(0, true)
	failures := poll.Failures{Log: l.Logger, Message: "the click log is not written to the disk"}
	write := func(context.Context) error {
		end := l.journal.End()
		err := l.journal.Sync()
		l.syncs.advance(end, false)
		return err
	}
	switch l.Sync {
	case SyncInterval:
		poll.Every(ctx, syncInterval, failures, write)
	case SyncAlways:
		for {
			select {
			case <-l.syncs.wake:
			case <-ctx.Done():
				return
			}
			if err := write(ctx); err != nil {
				l.Logger.ErrorContext(ctx, failures.Message, "error", err)
			}
		}
	}
}
