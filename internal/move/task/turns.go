package task

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxServed bounds the last turns that a node remembers.
const maxServed = 10_000

// candidate is the task of an account that a node takes next.
type candidate struct {
	lease.Columns
	ID, Account string
	Outside     bool
	DueAt       time.Time
}

// turns are the slots of a node in use, and when accounts had their last one. The zero value is
// ready to use.
type turns struct {
	admission.Queue

	mu     sync.Mutex
	served map[queue]int64
	last   int64
}

// queue identifies the tasks of an account that compute, or those that wait for other servers: each
// have slots, and so turns, of their own.
type queue struct {
	account string
	outside bool
}

func (c *candidate) queue() queue { return queue{c.Account, c.Outside} }

// serve notes that a task has a turn.
func (t *turns) serve(c *candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.served == nil || len(t.served) >= maxServed {
		t.served = map[queue]int64{}
	}
	t.last++
	t.served[c.queue()] = t.last
}

// sort orders candidates so that accounts go round: who has waited the longest since its last turn
// is the next.
func (t *turns) sort(all []*candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(t.served[a.queue()], t.served[b.queue()]), a.DueAt.Compare(b.DueAt))
	})
}

// bounds are those of a candidate on this node. Tasks that wait for other servers are many and
// compute little, so they take none of the slots of those that compute.
func (r *Runner) bounds(c *candidate) []admission.Bound {
	slots := int64(r.Slots)
	if c.Outside {
		return []admission.Bound{{Kind: "outside", Max: outsideFactor * slots},
			{Kind: "outside of account", Subject: c.Account, Max: max(1, outsideFactor*slots/4)}}
	}
	return []admission.Bound{{Kind: "slots", Max: slots},
		{Kind: "slots of account", Subject: c.Account, Max: max(1, slots/2)}}
}

// next returns the tasks that a node could take: of each account the first one that computes, and
// the first one that waits for other servers.
func (r *Runner) next(ctx context.Context) (all []*candidate, err error) {
	account := workspace.ResponsibleFor("task.workspace_id")
	waiting := r.waiting().Column("id", "outside", "due_at", "lease_until").ColumnExpr(account + " AS account").
		ColumnExpr("row_number() OVER (PARTITION BY outside, " + account + " ORDER BY due_at, id) AS place")
	err = r.DB.NewSelect().TableExpr("(?) AS waiting", waiting).
		Column("id", "outside", "due_at", "lease_until", "account").
		Where("place = 1").Order("due_at", "id").Scan(db.AsSystem(ctx), &all)
	if err != nil {
		return nil, fmt.Errorf("looking for tasks: %w", err)
	}
	return all, nil
}

// waiting selects the tasks that a node could take.
func (r *Runner) waiting() *bun.SelectQuery {
	now := r.now()
	running := r.DB.NewSelect().TableExpr("tasks AS other").ColumnExpr("1").
		Where("other.workspace_id = task.workspace_id").
		Where("other.kind = task.kind").Where("other.status = ?", Running)
	return r.DB.NewSelect().Model((*Task)(nil)).Where("finished_at IS NULL").
		Where("kind IN (?)", bun.In(slices.Collect(maps.Keys(r.Handlers)))).
		Where("?", db.Passed("due_at", now, longestPause)).Where("?", lease.Free(now)).
		Where("status = ? OR status = ? AND NOT EXISTS (?)", Running, Queued, running)
}

// othersWait reports whether there are tasks that could run if this one did not.
func (r *Runner) othersWait(ctx context.Context, h *Holding) bool {
	ctx, cancel := context.WithTimeout(ctx, lease.Timeout)
	defer cancel()
	waiting, err := r.next(ctx)
	return err == nil && slices.ContainsFunc(waiting, func(c *candidate) bool {
		own := r.bounds(c)[1]
		return c.Outside == h.Outside && (c.Account == h.account || r.turns.Used(own) < own.Max)
	})
}
