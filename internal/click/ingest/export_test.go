package ingest

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/click/wal"
)

// The parts of this package that tests of package ingest_test use. Those tests are outside of the
// package because their helper, package clicktest, imports it.

// The limits.
const (
	MaxBatch      = maxBatch
	MinBatch      = minBatch
	DrainDeadline = drainDeadline
	LongestRest   = maxPause
	Lull          = lull
	KeyLead       = keyLead
)

// AppendClick encodes a click.
var AppendClick = appendClick

// Journal returns the log below the click log.
func (l *Log) Journal() *wal.Log { return l.journal }

// Position returns the end of the part of the log whose clicks are in the database.
func (l *Log) Position() int64 { return l.position.Load() }

// Progress returns the channel that is closed when the position moves.
func (l *Log) Progress() chan struct{} {
	l.progressMu.Lock()
	defer l.progressMu.Unlock()
	return l.progress
}

// Write writes a batch, once.
func (r *Recorder) Write(ctx context.Context, b *batch) error { return r.write(ctx, b) }

// SetCrowded replaces the check for waiting goroutines.
func (r *Recorder) SetCrowded(crowded func() bool) { r.pace.crowded = crowded }

// Ingest writes a batch.
func (r *Recorder) Ingest(ctx context.Context, b *batch) error { return r.ingest(ctx, b) }

// IngestNext writes the next batch of the recorder's own log.
func (r *Recorder) IngestNext(ctx context.Context, most int) bool { return r.ingestNext(ctx, most) }

// Next reads the next batch of a log.
func (r *Recorder) Next(j *wal.Log, position int64, most int) (*batch, error) {
	return r.next(j, position, most)
}

// Rest waits after a batch, and returns the size of the next one.
func (r *Recorder) Rest(ctx context.Context, clicks int64, took time.Duration) int {
	return r.pace.rest(ctx, clicks, took, r.free())
}

// Synced returns the position that is on the disk.
func (l *Log) Synced() int64 {
	l.syncs.mu.Lock()
	defer l.syncs.mu.Unlock()
	return l.syncs.synced
}
