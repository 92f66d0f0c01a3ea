package hitquota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/redisx"
)

const (
	// guard stands in the place of a counter that vanished under a request, until that request has
	// removed it: far above every limit, so that nobody takes it for a count. guardTTL removes it
	// should the request die.
	guard    = int64(1) << 52
	guardTTL = 2 * sourceDeadline
	// guardWait is how long others wait for a guard to go.
	guardWait = 5 * time.Millisecond
	// afterlife is how long a counter outlives its month, which its key names: requests that
	// arrived in the month's last moments, and clocks that differ, still find it.
	afterlife = 24 * time.Hour
	// leaseTTL is how long a process that has died may be found by another, that what it had taken
	// comes back.
	leaseTTL = 24 * time.Hour
)

// Hits counts how many redirects links have answered this month, in Redis. It is a Source.
type Hits struct {
	// KV is Redis.
	KV *redisx.Client
	// LogID names this process's log, and so its leases.
	LogID string
	// Seeds count the hits of links that are known to have been granted in the month: what the
	// database knows and, if known says that there may be some, what this process has not written
	// yet.
	Seeds func(ctx context.Context, m Month, linkIDs []string, known bool) (map[string]int64, error)
	// Granted calls f with what was granted without Redis since a time, link by link, and what is
	// known to be used of it.
	Granted func(ctx context.Context, since time.Time, f func(linkID string, m Month, hits int64) error) error
	// Now is the clock.
	Now func() time.Time
}

// Take implements Source: it adds what is wanted to counters that are there, and never makes one,
// since a counter that has vanished must be seeded and not start over. INCRBY would make one: a
// guard is put in its place within the same step, which is removed at once. With the counter, the
// lease is kept under a key of its own, so that it is given back once.
func (h *Hits) Take(ctx context.Context, asks []*Ask) error {
	sums := make([]sum, len(asks))
	if err := h.addAll(ctx, asks, sums); err != nil {
		return fmt.Errorf("taking hits: %w", err)
	}
	var lost []*Ask
	var excess []Lease
	for i, a := range asks {
		if sums[i].guarded || sums[i].count >= guard/2 {
			a.Err = ErrLost
			lost = append(lost, a)
			continue
		}
		a.Left = max(0, a.Limit-sums[i].count)
		a.Granted = a.Want - min(a.Want, max(0, sums[i].count-a.Limit))
		if a.Granted < a.Want {
			excess = append(excess,
				Lease{LinkID: a.LinkID, Month: a.Month, Number: a.Number, Hits: a.Want, Used: a.Granted})
		}
	}
	h.unguard(ctx, lost)
	return h.shrink(ctx, excess)
}

// sum is what a counter says after something was added, and whether a guard had to be put in its
// place.
type sum struct {
	count   int64
	guarded bool
}

// atOnce is how many transactions go to a cluster at once.
const atOnce = 16

// addAll adds everything in one transaction or, in a cluster, in one for each link: none spans two
// of its slots, and a link has its own. After an error some may have been added; their leases are
// known, and given back.
func (h *Hits) addAll(ctx context.Context, asks []*Ask, sums []sum) error {
	if !h.KV.Sharded() {
		return h.add(ctx, asks, sums)
	}
	var adding errgroup.Group
	adding.SetLimit(atOnce)
	for i := range asks {
		adding.Go(func() error { return h.add(ctx, asks[i:i+1], sums[i:i+1]) })
	}
	return adding.Wait()
}

func (h *Hits) add(ctx context.Context, asks []*Ask, sums []sum) error {
	pipe := h.KV.TxPipeline()
	guarded, counts := make([]*redis.BoolCmd, len(asks)), make([]*redis.IntCmd, len(asks))
	for i, a := range asks {
		key := hitsKey(a.LinkID, a.Month)
		guarded[i] = pipe.SetNX(ctx, key, guard, guardTTL)
		counts[i] = pipe.IncrBy(ctx, key, a.Want)
		pipe.Set(ctx, h.leaseKey(a.LinkID, a.Number), a.Want, leaseTTL)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i := range asks {
		sums[i] = sum{counts[i].Val(), guarded[i].Val()}
	}
	return nil
}

// remove removes a guard, and nothing else: a counter may stand in its place again.
var remove = redis.NewScript(`
local hits = tonumber(redis.call('GET', KEYS[1]))
if hits and hits >= tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end
return 0`)

// unguard removes guards, one's own and those that somebody has left who got no answer, and the
// leases of what was not granted. Else they expire.
func (h *Hits) unguard(ctx context.Context, lost []*Ask) {
	if len(lost) == 0 {
		return
	}
	pipe := h.KV.Pipeline() // not one DEL: in a cluster the keys live on many nodes
	for _, a := range lost {
		remove.Eval(ctx, pipe, []string{hitsKey(a.LinkID, a.Month)}, guard/2)
		pipe.Del(ctx, h.leaseKey(a.LinkID, a.Number))
	}
	_, _ = pipe.Exec(ctx)
}

// Seed implements Seeder. A counter is made with its expiry in one step, so none stays for ever;
// should another process have been first, its count holds.
func (h *Hits) Seed(ctx context.Context, asks []*Ask) error {
	type group struct {
		month Month
		known bool
	}
	groups := map[group][]string{}
	for _, a := range asks {
		g := group{a.Month, a.Known}
		groups[g] = append(groups[g], a.LinkID)
	}
	for g, linkIDs := range groups {
		seeds, err := h.Seeds(ctx, g.month, linkIDs, g.known)
		if err != nil {
			return fmt.Errorf("counting the month's hits: %w", err)
		}
		pipe := h.KV.Pipeline()
		for _, linkID := range linkIDs {
			pipe.SetArgs(ctx, hitsKey(linkID, g.month), seeds[linkID],
				redis.SetArgs{Mode: "NX", ExpireAt: g.month.End.Add(afterlife)})
		}
		made, _ := pipe.Exec(ctx) // its error is the first one's, which is often that a counter is there
		for _, c := range made {
			if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("making hit counters: %w", err)
			}
		}
	}
	return nil
}

// settle ends a lease if it is still there, so that nothing is given back twice, or to a counter
// that knows nothing of it. A lease that is cut to nothing is over. It is not on the way of a
// redirect.
var settle = redis.NewScript(`
local hits = tonumber(redis.call('GET', KEYS[1]))
if not hits then return 0 end
local used = tonumber(ARGV[1])
if ARGV[2] == 'end' or used == 0 then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], used, 'PX', ARGV[2])
end
if hits > used and redis.call('EXISTS', KEYS[2]) == 1 then redis.call('DECRBY', KEYS[2], hits - used) end
return hits - used`)

// Return implements Source.
func (h *Hits) Return(ctx context.Context, leases []Lease) error {
	return h.settleAll(ctx, leases, "end")
}

// shrink gives back what was taken beyond the limit, and keeps the rest of the lease.
func (h *Hits) shrink(ctx context.Context, leases []Lease) error {
	return h.settleAll(ctx, leases, strconv.FormatInt(leaseTTL.Milliseconds(), 10))
}

func (h *Hits) settleAll(ctx context.Context, leases []Lease, how string) error {
	if len(leases) == 0 {
		return nil
	}
	pipe := h.KV.Pipeline()
	for _, l := range leases {
		key := hitsKey(l.LinkID, l.Month)
		if l.Hits == l.Used && how == "end" {
			pipe.Del(ctx, h.leaseKey(l.LinkID, l.Number))
			continue
		}
		settle.Eval(ctx, pipe, []string{h.leaseKey(l.LinkID, l.Number), key}, l.Used, how)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("giving hits back: %w", err)
	}
	return nil
}

// Recover ends the leases of a process that has died, and gives back what it had not used.
func (h *Hits) Recover(ctx context.Context, logID string, leases []Lease) error {
	dead := *h
	dead.LogID = logID
	return dead.Return(ctx, leases)
}

// raise brings a counter up to what is known to have been granted, if it is there.
var raise = redis.NewScript(`
local hits = tonumber(redis.call('GET', KEYS[1]))
if not hits or hits >= tonumber(ARGV[1]) then return 0 end
return redis.call('INCRBY', KEYS[1], ARGV[1] - hits)`)

// Resume implements Source: what was granted without Redis is added to the counters that Redis
// still has.
func (h *Hits) Resume(ctx context.Context) error {
	if err := h.KV.Ready(ctx); err != nil {
		return err
	}
	month := MonthOf(h.Now())
	return h.Granted(ctx, month.Start, func(linkID string, m Month, hits int64) error {
		return raise.Eval(ctx, h.KV, []string{hitsKey(linkID, m)}, hits).Err()
	})
}

// hitsKey hashes by the link alone (the braces), so that a cluster keeps a link's counters
// together.
func hitsKey(linkID string, m Month) string {
	return "links:{" + linkID + "}:hits:" + m.String()
}

func (h *Hits) leaseKey(linkID string, number int64) string {
	return "links:{" + linkID + "}:lease:" + h.LogID + ":" + strconv.FormatInt(number, 10)
}
