package dispatch

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// turnMemory is the time after which half of the time that a webhook has used is forgotten.
	turnMemory = 10 * time.Second
	// longAnswer is the duration from which the requests of a webhook are long: such a webhook has
	// at most longConcurrency of them in flight on a node.
	longAnswer      = time.Second
	longConcurrency = maxPerHost / workspaceDivisor / 2
)

// turns measure how long the requests of webhooks take on this node: webhooks take turns in
// proportion to time. One that answers late would otherwise have almost all of the requests that a
// workspace has to a host: as many turns as the others, each of which lasts longer. It is time of
// the machine, not of the injected clock. The zero value is ready to use.
type turns struct {
	mu  sync.Mutex
	all map[string]*turn // by webhook
}

// turn is the use of one webhook.
type turn struct {
	// used is the time of requests that have ended, as it counts at the instant at.
	used time.Duration
	at   time.Time
	// last is how long the last request took. began has the starts of those in flight.
	last  time.Duration
	began []time.Time
}

// usedAt returns the time that the webhook has used, of which half is forgotten after turnMemory.
func (u *turn) usedAt(now time.Time) time.Duration {
	if u == nil {
		return 0
	}
	return u.endedAt(now) + u.inFlight(now)
}

func (u *turn) endedAt(now time.Time) time.Duration {
	return time.Duration(float64(u.used) * math.Exp2(-float64(now.Sub(u.at))/float64(turnMemory)))
}

// inFlight returns the time that the requests in flight have taken so far.
func (u *turn) inFlight(now time.Time) (sum time.Duration) {
	for _, began := range u.began {
		sum += now.Sub(began)
	}
	return sum
}

// isLong reports whether the requests of the webhook are long.
func (u *turn) isLong(now time.Time) bool {
	return u != nil && (u.last >= longAnswer || len(u.began) > 0 && now.Sub(u.began[0]) >= longAnswer)
}

// begin records the start of requests.
func (t *turns) begin(webhookID string, now time.Time, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*turn{}
	}
	if t.all[webhookID] == nil {
		t.all[webhookID] = &turn{at: now}
	}
	for range n {
		t.all[webhookID].began = append(t.all[webhookID].began, now)
	}
}

// end records the end of a request that began at the instant, and forgets webhooks that have not
// sent for long.
func (t *turns) end(webhookID string, began, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.all[webhookID]
	if i := slices.Index(u.began, began); i >= 0 {
		u.began = slices.Delete(u.began, i, i+1)
	}
	u.last = now.Sub(began)
	u.used, u.at = u.endedAt(now)+u.last, now
	for id, other := range t.all {
		if len(other.began) == 0 && now.Sub(other.at) > 10*turnMemory {
			delete(t.all, id)
		}
	}
}

// room returns how many more requests of a webhook may begin.
func (t *turns) room(of *target, now time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.all[of.ID]
	if !u.isLong(now) {
		return of.Concurrency
	}
	return max(0, min(of.Concurrency, longConcurrency-int64(len(u.began))))
}

// order sorts due webhooks by turn: those of a workspace by the time that they have used, then by
// when they were due; workspaces take turns, and begin behind as many as they have requests in
// flight.
func (t *turns) order(rows []*target, now time.Time, inFlight func(*target) int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := make(map[string]time.Duration, len(rows))
	for _, row := range rows {
		used[row.ID] = t.all[row.ID].usedAt(now)
	}
	slices.SortStableFunc(rows, func(a, b *target) int {
		return cmp.Or(cmp.Compare(used[a.ID], used[b.ID]), a.DueAt.Compare(b.DueAt))
	})
	before := map[string]int64{}
	turnOf := make(map[string]int64, len(rows))
	for _, row := range rows {
		if _, known := before[row.WorkspaceID]; !known {
			before[row.WorkspaceID] = inFlight(row)
		}
		before[row.WorkspaceID]++
		turnOf[row.ID] = before[row.WorkspaceID]
	}
	slices.SortStableFunc(rows, func(a, b *target) int {
		return cmp.Or(cmp.Compare(turnOf[a.ID], turnOf[b.ID]), a.DueAt.Compare(b.DueAt))
	})
}
