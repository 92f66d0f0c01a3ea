package hitquota

import (
	"context"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// This file grants hits while the counters do not answer. Of the first half of a link's limit, each
// node may have a part that is not in the database, so that all nodes together stay within it
// without talking to each other. Outage leases have negative numbers, also in the records of their
// clicks: so the database knows how many clicks of a month have such hits, and counters add them
// once, whichever node learns of them. A process that dies loses nothing.

const (
	// reportInterval is how often a process reports to the others.
	reportInterval = 5 * time.Second
	// clockTolerance is by how much clocks of nodes may differ.
	clockTolerance = time.Second
	// settleTime is how long after its start, or a failed report, a process does not believe that
	// there are fewer nodes than before: the reports of others may have failed too.
	settleTime = 20 * time.Second
)

// part returns how many hits of a link a node may grant without its counter, if the database has
// counted clicks: all parts are half of the limit at most. If there is less than one hit for each
// node, each has one where the other half of the limit has enough for all. There is none while the
// number of nodes is unknown.
func part(limit, counted, nodes int64) int64 {
	if nodes == 0 {
		return 0
	}
	rest := limit - limit/2 - counted
	if rest > 0 && rest < nodes && 4*nodes <= limit {
		return 1
	}
	return max(0, rest/nodes)
}

// grantInOutage grants hits to a request with a new floor, as an outage lease, and finishes it. It
// reports false if this node's part is used, or if the log has no room for the clicks, which would
// be missing from the next floor.
func (l *Leases) grantInOutage(q *queued) bool {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, isKnown := s.links[q.key]
	wanted := l.size(h, isKnown, q.waiters, int32(nearLife.Milliseconds()), 1)
	s.mu.Unlock()
	left := part(q.Limit, q.counted, l.nodes.Load()) - (q.Floor - q.counted) - q.held
	granted := min(wanted, left)
	number := -l.numbers.Add(1)
	if granted <= 0 || l.ClickLog.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: number, Hits: granted}) != nil {
		return false
	}
	s.mu.Lock() // reap and Stats read requests
	q.Number, q.position, q.Err = number, noPosition, nil
	q.Granted, q.Remaining = granted, left-granted
	s.mu.Unlock()
	l.hitsInOutage.Add(granted)
	l.finish(q, q.epoch)
	return true
}

// awaitsClicks reports that a request would get hits if the database had the clicks in the log. Their
// ingestion may pause for long while the machine is busy.
func (l *Leases) awaitsClicks(q *queued) bool {
	if q.isFlushed || q.MustExist || q.Floor == q.counted || part(q.Limit, q.Floor, l.nodes.Load()) <= q.held {
		return false
	}
	q.isFlushed = true
	return true
}

// flush has the database get the clicks in the log. A floor is right without it.
func (l *Leases) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushDeadline)
	defer cancel()
	_ = l.ClickLog.Flush(ctx)
}

// bar remembers for a while that a link has no hit of an outage lease, so that its visitors cause no
// statements.
func (l *Leases) bar(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.links[q.key]
	h.barredAt = l.Now().UnixMilli()
	s.links[q.key] = h
}

// settleOutage has counters add the hits of outage leases. After an error the next reap tries again:
// leases must not wait for a silent database. The hits of a process that dies before are added when
// another one needs a new floor for the link.
func (l *Leases) settleOutage(ctx context.Context, owing []linkKey) {
	months := map[click.Month][]linkKey{}
	for _, key := range owing {
		months[key.month] = append(months[key.month], key)
	}
	for _, keys := range months {
		for some := range slices.Chunk(keys, takeBatch) {
			l.setOwing(some, false)
			if l.raise(ctx, some) != nil {
				l.setOwing(some, true)
				return
			}
		}
	}
}

func (l *Leases) setOwing(keys []linkKey, owes bool) {
	for _, key := range keys {
		s := l.shard(&key)
		s.mu.Lock()
		if h, ok := s.links[key]; ok {
			h.owes = owes
			s.links[key] = h
		}
		s.mu.Unlock()
	}
}

// reportEvery reports this process to the others until the context ends.
func (l *Leases) reportEvery(ctx context.Context) {
	failures := poll.Failures{Log: l.Log, Message: "reporting the node to the others failed"}
	l.unsureAt = l.Now()
	_ = l.report(ctx, false, l.Now(), time.Time{}) // Redis may not answer for long; the next report follows at once
	var lostAt time.Time                           // when it was found to have no Redis; zero while it has
	poll.OnSignal(ctx, nil, reportInterval, failures, func(ctx context.Context) error {
		now, hasRedis := l.Now(), l.hasRedis(ctx)
		switch {
		case hasRedis:
			lostAt = time.Time{}
		case lostAt.IsZero():
			lostAt = now
		}
		return l.report(ctx, hasRedis, now, lostAt)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementWait)
	defer cancel()
	failures.Report(ctx, l.Nodes.Leave(ctx, l.ClickLog.LogID()))
}

func (l *Leases) hasRedis(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, takeDeadline)
	defer cancel()
	return l.Redis != nil && l.Redis.Ready(ctx) == nil
}

// report reports this process to the others, and learns of them. If that fails, the number that it
// knew remains, and it cannot say that others have Redis. lostAt is zero if it has not lost Redis.
func (l *Leases) report(ctx context.Context, hasRedis bool, now, lostAt time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, statementWait)
	defer cancel()
	others, withRedis, err := l.Nodes.Report(ctx, l.ClickLog.LogID(), hasRedis, now, lostAt.Add(clockTolerance))
	switch {
	case err != nil:
		l.unsureAt = now
	case now.Sub(l.unsureAt) < settleTime:
		l.setNodes(max(1+others, l.nodes.Load()))
	default:
		l.setNodes(1 + others)
	}
	if err != nil || lostAt.IsZero() {
		withRedis = 0
	}
	l.othersWithRedis.Store(withRedis)
	return err
}

// setNodes sets the number of nodes. Another number begins another period.
func (l *Leases) setNodes(n int64) {
	if n != l.nodes.Load() {
		l.period.Add(1)
		l.nodes.Store(n)
	}
}

// isAlone reports whether the counter of a link has the hits of all outage leases: it was raised to a
// floor since this node became the only one, and this node has used no hit of an outage lease since.
func (l *Leases) isAlone(h linkState) bool {
	return l.nodes.Load() == 1 && h.period == l.period.Load() && !h.owes
}
