package hitquota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

const (
	// keyRetention is how long the keys of a month outlive it, for late requests.
	keyRetention = 24 * time.Hour
	// nextMonthAhead is how long before the end of a month its hits create counters of the next one,
	// which begin with 0 for certain: so the month begins without the database.
	nextMonthAhead = 24 * time.Hour
	// anyNumber is above every counter.
	anyNumber = 1 << 53
)

// takeScript grants hits. Keys: the counter, the hash of open leases and, if the floor has clicks of
// outage leases, how many of these the counter contains. Arguments: wanted hits, limit, floor,
// lease, expiry of the keys, up to where hits are granted above an old floor (-1 above a new one),
// clicks of outage leases, and leases to register again with their hits. A command that is executed
// again has the same result. A lease that was returned as unsure grants nothing.
const takeScript = `
local counter, floor, within = redis.call('GET', KEYS[1]), tonumber(ARGV[3]), tonumber(ARGV[6])
if not counter and within >= 0 then return {-1, 0} end
local before, limit, outage, contained = tonumber(counter or '-1'), tonumber(ARGV[2]), tonumber(ARGV[7]), 0
local used = before
if KEYS[3] and counter then
	contained = tonumber(redis.call('GET', KEYS[3]) or '0')
	used = used + math.max(0, outage - contained)
end
used = math.max(used, floor)
local hits = redis.call('HGET', KEYS[2], ARGV[4])
if hits then return {tonumber(hits), math.max(0, limit - used)} end
local granted = math.max(0, math.min(tonumber(ARGV[1]), limit - used))
if within >= 0 and granted > 0 and used + granted > within then return {-1, 1} end
used = used + granted
if used ~= before then redis.call('SET', KEYS[1], string.format('%.0f', used), 'EXAT', ARGV[5]) end
if KEYS[3] and outage > contained then redis.call('SET', KEYS[3], ARGV[7], 'EXAT', ARGV[5]) end
for i = 8, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
if granted > 0 then redis.call('HSET', KEYS[2], ARGV[4], string.format('%.0f', granted)) end
if granted > 0 or #ARGV > 7 then redis.call('EXPIREAT', KEYS[2], ARGV[5]) end
return {granted, math.max(0, limit - used)}
`

// returnScript ends a lease. Keys as above. Arguments: lease, used hits, expiry of the keys, and 1
// if the lease is unsure: then a lease of 0 hits remains. Nothing else stops a command that is
// still in a socket, or is sent again.
var returnScript = redis.NewScript(`
local hits = redis.call('HGET', KEYS[2], ARGV[1])
if ARGV[4] == '1' then
	redis.call('HSET', KEYS[2], ARGV[1], 0)
	redis.call('EXPIREAT', KEYS[2], ARGV[3])
end
if not hits or hits == '0' then return 0 end
if ARGV[4] ~= '1' then redis.call('HDEL', KEYS[2], ARGV[1]) end
local counter, unused = redis.call('GET', KEYS[1]), tonumber(hits) - tonumber(ARGV[2])
if counter and unused > 0 then
	redis.call('SET', KEYS[1], string.format('%.0f', math.max(0, tonumber(counter) - unused)), 'KEEPTTL')
end
return 1
`)

// inRedis are the Counters of all nodes.
//
// The take script of each process has a text, and so a digest, of its own. Redis neither stores nor
// replicates scripts, so a server that does not know it (NOSCRIPT) has restarted, or is another one
// than before: its counters may be those of an earlier instant. That ends the epoch.
type inRedis struct {
	*redisx.Client
	logID string
	now   func() time.Time
	take  *redis.Script
	epoch atomic.Int64
	since atomic.Pointer[time.Time]
}

// NewRedis returns the counters in Redis, for the process with the click log.
func NewRedis(client *redisx.Client, logID string, now func() time.Time) Counters {
	c := &inRedis{Client: client, logID: logID, now: now, take: redis.NewScript(takeScript + "-- " + logID)}
	c.beginEpoch()
	return c
}

func (c *inRedis) Epoch() int64 { return c.epoch.Load() }

func (c *inRedis) Since() time.Time { return *c.since.Load() }

// beginEpoch sets the instant first: who reads the number and then the instant has none of an
// earlier epoch.
func (c *inRedis) beginEpoch() int64 {
	now := c.now()
	c.since.Store(&now)
	return c.epoch.Add(1)
}

func (c *inRedis) IsDown() bool { return c.IsOpen() }

// keysOf returns the keys of a link in a month: its counter, its open leases, and the hits of outage
// leases that the counter contains. Their hash tag is the link, so a cluster stores them in one slot.
func keysOf(linkID string, m click.Month) []string {
	prefix, month := "links:{"+linkID+"}:", m.String()
	return []string{prefix + "hits:" + month, prefix + "leases:" + month, prefix + "outage:" + month}
}

func expiryOf(m click.Month) int64 { return m.End().Add(keyRetention).Unix() }

func (c *inRedis) Take(ctx context.Context, requests []*Request) (epoch int64) {
	epoch = c.epoch.Load()
	loads, isLost := false, false
	pipe, replies := c.Pipeline(), make([]*redis.Cmd, len(requests))
	for i, q := range requests {
		keys, args := keysOf(q.LinkID, q.Month), c.argsOf(q)
		if q.Outage == 0 {
			keys = keys[:2]
		}
		if q.mustLoad {
			replies[i], loads = c.take.Eval(ctx, pipe, keys, args...), true
		} else {
			replies[i] = c.take.EvalSha(ctx, pipe, keys, args...)
		}
	}
	c.createNext(ctx, pipe, requests)
	_, _ = pipe.Exec(ctx)
	for i, q := range requests {
		numbers, err := replies[i].Int64Slice()
		q.Granted, q.Remaining, q.NeedsFloor, q.Exists, q.Err = 0, 0, false, false, nil
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			q.NeedsFloor, q.mustLoad, isLost = true, true, true
		case err != nil && c.isFault(err):
			q.Err = fmt.Errorf("%w: %w", errFault, err)
		case err != nil:
			q.Err = fmt.Errorf("%w: %w", errRedisDown, err)
		case numbers[0] < 0:
			q.NeedsFloor, q.Exists, q.mustLoad = true, numbers[1] == 1, false
		default:
			q.Granted, q.Remaining, q.mustLoad = numbers[0], numbers[1], false
		}
	}
	if isLost {
		c.beginEpoch()
	}
	if loads { // the server may have restarted again meanwhile
		epoch = c.beginEpoch()
	}
	return epoch
}

// createNext adds commands to a pipeline that create the counters of the next month, shortly before
// it begins.
func (c *inRedis) createNext(ctx context.Context, pipe redis.Pipeliner, requests []*Request) {
	for _, q := range requests {
		left, next := q.Month.End().Sub(c.now()), q.Month+1
		if left > takeDeadline && left <= nextMonthAhead { // the pipeline may take a while
			pipe.SetArgs(ctx, keysOf(q.LinkID, next)[0], 0,
				redis.SetArgs{Mode: "NX", ExpireAt: time.Unix(expiryOf(next), 0)})
		}
	}
}

func (c *inRedis) argsOf(q *Request) []any {
	args, within := make([]any, 0, 7+2*len(q.Open)), int64(-1)
	switch {
	case q.MustExist && q.IsBlind:
		within = anyNumber
	case q.MustExist:
		within = q.Limit / 2
	}
	args = append(args, q.Want, q.Limit, q.Floor, leaseField(c.logID, q.Number), expiryOf(q.Month), within, q.Outage)
	for _, l := range q.Open {
		args = append(args, leaseField(c.logID, l.Number), l.Hits)
	}
	return args
}

// Return reports no error of a link whose keys an operator has broken: its hits cannot return,
// those of others do.
func (c *inRedis) Return(ctx context.Context, logID string, leases []Lease) error {
	var err error
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{
		returnScript.EvalSha, returnScript.Eval,
	} {
		pipe := c.Pipeline()
		for _, l := range leases {
			run(ctx, pipe, keysOf(l.LinkID, l.Month)[:2], leaseField(logID, l.Number), l.Used, expiryOf(l.Month),
				l.IsUnsure)
		}
		replies, _ := pipe.Exec(ctx)
		err = nil
		isUnknown := false
		for _, reply := range replies {
			isUnknown = isUnknown || redis.HasErrorPrefix(reply.Err(), "NOSCRIPT")
			if reply.Err() != nil && !c.isFault(reply.Err()) {
				err = fmt.Errorf("%w: returning hits: %w", errRedisDown, reply.Err())
			}
		}
		if !isUnknown {
			break
		}
	}
	return err
}

// isFault reports whether Redis has refused a command for a reason that lies in the keys of its
// link.
func (c *inRedis) isFault(err error) bool {
	_, isReply := errors.AsType[redis.Error](err)
	return isReply && !c.IsDown()
}

// Used leaves out a link whose keys an operator has broken, and returns the hits of the others with
// the error.
func (c *inRedis) Used(ctx context.Context, m click.Month, linkIDs []string) (map[string]int64, error) {
	pipe := c.Pipeline()
	counters, leases := make([]*redis.StringCmd, len(linkIDs)), make([]*redis.StringSliceCmd, len(linkIDs))
	for i, linkID := range linkIDs {
		keys := keysOf(linkID, m)
		counters[i], leases[i] = pipe.Get(ctx, keys[0]), pipe.HVals(ctx, keys[1])
	}
	_, _ = pipe.Exec(ctx)
	var broken error
	used := make(map[string]int64, len(linkIDs))
	for i, linkID := range linkIDs {
		n, err := withoutLeases(counters[i], leases[i])
		switch {
		case err == nil:
			used[linkID] = n
		case !errors.Is(err, redis.Nil):
			broken = fmt.Errorf("reading used hits of %s: %w", linkID, err)
		}
	}
	return used, broken
}

// withoutLeases returns the hits of a counter without those of open leases. Without a counter it
// returns redis.Nil.
func withoutLeases(counter *redis.StringCmd, leases *redis.StringSliceCmd) (int64, error) {
	n, err := counter.Int64()
	if err != nil {
		return 0, err
	}
	if leases.Err() != nil {
		return 0, leases.Err()
	}
	for _, text := range leases.Val() {
		hits, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		n -= hits
	}
	return max(0, n), nil
}

// leaseField names a lease for all nodes.
func leaseField(logID string, number int64) string {
	return logID + "/" + strconv.FormatInt(number, 10)
}
