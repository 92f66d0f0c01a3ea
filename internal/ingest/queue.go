package ingest

import (
	"runtime/metrics"
	"slices"
)

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
