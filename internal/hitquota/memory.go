package hitquota

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// Memory counts hits in this process. It is the Source of a process with an in-process Redis. Both
// end together, so a counter in Redis would survive no longer, and a hit costs no round trip.
type Memory struct {
	// Seeds count the hits of links that the database knows, as Hits has them.
	Seeds func(ctx context.Context, m Month, linkIDs []string, known bool) (map[string]int64, error)

	mu    sync.Mutex
	used  map[memoryKey]int64
	month int32 // the last one that anything was counted in
}

// memoryKey has no pointers, nor has the map then: a million links are nothing to the garbage
// collector.
type memoryKey struct {
	link  linkKey
	month int32
}

// Take implements Source.
func (c *Memory) Take(_ context.Context, requests []*Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range requests {
		key, err := memoryKeyOf(a.LinkID, a.Month)
		if err != nil {
			return err
		}
		used, ok := c.used[key]
		if !ok {
			a.Err = ErrLost
			continue
		}
		a.Granted = max(0, min(a.Want, a.Limit-used))
		a.Left = max(0, a.Limit-used-a.Granted)
		c.used[key] = used + a.Granted
	}
	return nil
}

// Seed implements Seeder. Months that are over are forgotten by then.
func (c *Memory) Seed(ctx context.Context, requests []*Request) error {
	for _, a := range requests {
		seeds, err := c.Seeds(ctx, a.Month, []string{a.LinkID}, a.Known)
		if err != nil {
			return fmt.Errorf("counting the month's hits: %w", err)
		}
		if err := c.seed(a, seeds[a.LinkID]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Memory) seed(a *Request, used int64) error {
	key, err := memoryKeyOf(a.LinkID, a.Month)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[memoryKey]int64{}
	}
	if key.month > c.month {
		c.month = key.month
		maps.DeleteFunc(c.used, func(k memoryKey, _ int64) bool { return k.month < key.month-1 })
	}
	if _, ok := c.used[key]; !ok {
		c.used[key] = used
	}
	return nil
}

// Return implements Source.
func (c *Memory) Return(_ context.Context, leases []Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range leases {
		key, err := memoryKeyOf(l.LinkID, l.Month)
		if err != nil {
			return err
		}
		if used, ok := c.used[key]; ok {
			c.used[key] = used - (l.Hits - l.Used)
		}
	}
	return nil
}

// Resume implements Source: memory is always there.
func (c *Memory) Resume(context.Context) error { return nil }

func memoryKeyOf(linkID string, m Month) (memoryKey, error) {
	key, err := keyOf(linkID)
	return memoryKey{key, m.number()}, err
}
