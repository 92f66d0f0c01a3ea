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
	// guard replaces a counter that vanished during a request until the request has removed it. It is
	// far above every limit, so that it is never mistaken for a count. guardTTL removes it if the
	// process dies.
	guard    = int64(1) << 52
	guardTTL = 2 * sourceDeadline
	// guardWait is how long others wait for a guard to go.
	guardWait = 5 * time.Millisecond
	// afterlife is how long a counter outlives its month, which its key names: requests that
	// arrived in the month's last moments, and clocks that differ, still find it.
	afterlife = 24 * time.Hour
	// leaseTTL is the time within which the lease of a dead process can be recovered.
	leaseTTL = 24 * time.Hour
)

// Hits counts how many redirects links have answered this month, in Redis. It is a Source.
type Hits struct {
	// KV is Redis.
	KV *redisx.Client
	// LogID names this process's log, and so its leases.
	LogID string
	// Seeds returns the known hits of links in a month: those in the database and, if known is true,
	// those that this process has not written yet.
	Seeds func(ctx context.Context, m Month, linkIDs []string, known bool) (map[string]int64, error)
	// Granted calls f with the hits of each link that were granted without Redis since a time, and its
	// known usage.
	Granted func(ctx context.Context, since time.Time, f func(linkID string, m Month, hits int64) error) error
	// Now is the clock.
	Now func() time.Time
}

// Take implements Source. It adds the requested hits to existing counters and never creates one,
// because a counter that has vanished must be seeded and not begin at zero. INCRBY would create it,
// so the same step puts a guard in its place, which is removed at once. In the same step the lease
// is stored under a key of its own, so that it returns once.
func (h *Hits) Take(ctx context.Context, requests []*Request) error {
	sums := make([]sum, len(requests))
	if err := h.addAll(ctx, requests, sums); err != nil {
		return fmt.Errorf("taking hits: %w", err)
	}
	var lost []*Request
	var excess []Lease
	for i, a := range requests {
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

// sum is the value of a counter after an addition, and whether a guard had to replace it.
type sum struct {
	count   int64
	guarded bool
}

// atOnce is how many transactions go to a cluster at once.
const atOnce = 16

// addAll adds everything in one transaction or, in a cluster, in one for each link: none spans two
// of its slots, and a link has its own. After an error some may have been added; their leases are
// known, and given back.
func (h *Hits) addAll(ctx context.Context, requests []*Request, sums []sum) error {
	if !h.KV.Sharded() {
		return h.add(ctx, requests, sums)
	}
	var adding errgroup.Group
	adding.SetLimit(atOnce)
	for i := range requests {
		adding.Go(func() error { return h.add(ctx, requests[i:i+1], sums[i:i+1]) })
	}
	return adding.Wait()
}

func (h *Hits) add(ctx context.Context, requests []*Request, sums []sum) error {
	pipe := h.KV.TxPipeline()
	guarded, counts := make([]*redis.BoolCmd, len(requests)), make([]*redis.IntCmd, len(requests))
	for i, a := range requests {
		key := hitsKey(a.LinkID, a.Month)
		guarded[i] = pipe.SetNX(ctx, key, guard, guardTTL)
		counts[i] = pipe.IncrBy(ctx, key, a.Want)
		pipe.Set(ctx, h.leaseKey(a.LinkID, a.Number), a.Want, leaseTTL)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i := range requests {
		sums[i] = sum{counts[i].Val(), guarded[i].Val()}
	}
	return nil
}

// remove removes a guard, but not a counter that has replaced it.
var remove = redis.NewScript(`
local hits = tonumber(redis.call('GET', KEYS[1]))
if hits and hits >= tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end
return 0`)

// unguard removes guards, including those of requests that received no response, and the leases of
// hits that were not granted. If it fails, they expire.
func (h *Hits) unguard(ctx context.Context, lost []*Request) {
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
func (h *Hits) Seed(ctx context.Context, requests []*Request) error {
	type group struct {
		month Month
		known bool
	}
	groups := map[group][]string{}
	for _, a := range requests {
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
		made, _ := pipe.Exec(ctx) // the error is the first one's, which often means that the counter exists
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

// shrink returns the hits beyond the limit, and reduces the lease to the others.
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

// Recover ends the leases of a dead process, and returns their unused hits.
func (h *Hits) Recover(ctx context.Context, logID string, leases []Lease) error {
	dead := *h
	dead.LogID = logID
	return dead.Return(ctx, leases)
}

// raise raises an existing counter to the known usage.
var raise = redis.NewScript(`
local hits = tonumber(redis.call('GET', KEYS[1]))
if not hits or hits >= tonumber(ARGV[1]) then return 0 end
return redis.call('INCRBY', KEYS[1], ARGV[1] - hits)`)

// Resume implements Source: it adds the hits that were granted without Redis to the counters that
// Redis still has.
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
