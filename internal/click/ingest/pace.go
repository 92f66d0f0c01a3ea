package ingest

import (
	"context"
	"runtime/metrics"
	"slices"
	"time"
)

const (
	// throttleRatio is the pause after a batch as a multiple of its duration, while redirects wait
	// for processors and the log is empty. The fuller the log, the shorter the pause.
	throttleRatio = 9
	// maxPause bounds that pause, because a batch may have waited for the database. It ends when no
	// redirect has waited for lull.
	maxPause = 15 * time.Second
	lull     = 20 * time.Millisecond
	// maxBatchDuration is the longest time of a batch while redirects wait for processors. minBatch
	// is the number of clicks that a batch has in any case, because a part of its time does not
	// depend on clicks. When only minFreeLog of the log is free, full batches are written, which
	// take less time per click.
	maxBatchDuration = 250 * time.Millisecond
	minBatch         = 1000
	minFreeLog       = 0.5
)

// pace keeps batches of clicks, which are safe in the log, out of the way of redirects that wait
// for processors.
type pace struct {
	// crowded reports whether many goroutines waited for a processor since the last call.
	crowded func() bool
	// rush ends pauses: a caller waits for the clicks.
	rush <-chan struct{}
}

func newPace(rush <-chan struct{}) pace { return pace{crowded: new(queue).isLong, rush: rush} }

// rest pauses after a batch while redirects wait for processors, as they did during the batch. It
// returns the maximum number of records of the next batch, from the duration and the clicks of the
// last one. free is the share of the log that is free.
func (p pace) rest(ctx context.Context, clicks int64, took time.Duration, free float64) (most int) {
	for rest := min(maxPause, time.Duration(throttleRatio*max(0, free)*float64(took))); rest > 0; rest -= lull {
		if !p.crowded() || !p.wait(ctx, min(rest, lull)) {
			return maxBatch
		}
	}
	if clicks == 0 || free < minFreeLog {
		return maxBatch
	}
	n := float64(clicks) * float64(maxBatchDuration) / float64(max(took, 1))
	return int(min(max(n, minBatch), maxBatch))
}

// wait reports whether it waited for d. It ends early for a rush, or with the context.
func (p pace) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.rush:
	case <-ctx.Done():
	}
	return false
}

// queue is that of the goroutines that wait for a processor.
type queue struct {
	sample [1]metrics.Sample
	before []uint64
}

// longWait is how long half of them wait where there is too much to do, in seconds. With a
// processor to spare it is a few microseconds.
const longWait = 50e-6

// isLong reports whether at least half of the goroutines that became ready since the last call
// waited for a long time.
func (q *queue) isLong() bool {
	q.sample[0].Name = "/sched/latencies:seconds"
	metrics.Read(q.sample[:])
	now := q.sample[0].Value.Float64Histogram()
	before := q.before
	if q.before = slices.Clone(now.Counts); before == nil {
		return false
	}
	var all, long uint64
	for i, n := range now.Counts {
		n -= before[i]
		all += n
		if now.Buckets[i] >= longWait {
			long += n
		}
	}
	return 2*long > all
}
