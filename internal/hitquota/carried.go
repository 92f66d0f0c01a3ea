package hitquota

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// carried are the clicks of dead processes' logs that the database does not have yet. Counters in the
// memory of a process begin with them; those in Redis contain them already.
type carried struct {
	counted chan struct{} // closed when the logs have been counted
	mu      sync.Mutex
	month   string
	clicks  map[string]int64
}

// of returns the carried clicks of a link in a month. It reports false until the logs have been counted.
func (c *carried) of(linkID string, m Month) (int64, bool) {
	select {
	case <-c.counted:
	default:
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.month != m.String() {
		return 0, true
	}
	return c.clicks[linkID], true
}

func (c *carried) await(ctx context.Context) error {
	select {
	case <-c.counted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *carried) set(m Month, clicks map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.month, c.clicks = m.String(), clicks
	select {
	case <-c.counted:
	default:
		close(c.counted)
	}
}

// Carry adds clicks of this month to the counters that are in logs of dead processes, before these are
// ingested: count returns them by link. It does nothing if counters outlive the process.
func (l *Leases) Carry(ctx context.Context, count func(since Month) (map[string]int64, error)) error {
	if !l.AwaitsLogs {
		return nil
	}
	month := MonthOf(l.Now())
	clicks, err := count(month)
	if err != nil {
		return err
	}
	l.carried.set(month, clicks)
	for linkIDs := range slices.Chunk(slices.Sorted(maps.Keys(clicks)), takeBatch) {
		var batch []*queued
		var requests []*Request
		for _, linkID := range linkIDs {
			if key, err := keyOf(linkID); err == nil { // logs may have other texts
				q := &queued{key: key, Request: Request{LinkID: linkID, Month: month}}
				batch, requests = append(batch, q), append(requests, &q.Request)
			}
		}
		if err := l.readFloors(batch); err != nil {
			return err
		}
		l.Counters.Take(ctx, requests)
	}
	l.carried.set(month, nil)
	return nil
}
