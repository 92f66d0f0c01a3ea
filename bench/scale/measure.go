package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// drawnVisits is how many visits are drawn: a burst that has more repeats them.
	drawnVisits = 1 << 17
	// maxOnce bounds the requests of a burst that are each sent once; a warmPart-th as many come
	// before it.
	maxOnce  = 10_000
	warmPart = 10
)

// figures are those of a burst and, for an operation, with what nodes do in the background:
// transactions of PostgreSQL, blocks that it read and those among them that its own memory did not
// have, what it logged in KiB, and commands of Redis.
type figures struct {
	rig.Figures
	transactions, blocks, reads, log, commands float64
}

// column is one size, with the figures of each operation in each round.
type column struct {
	title string
	*stand
	measured map[string][]figures
}

// takeTurns measures all operations at all sizes, size after size, right after the constant
// handler.
func (b *bench) takeTurns(ctx context.Context, names []string, columns []*column) (constant []figures, err error) {
	for round := range b.rounds {
		b.Say("round %d of %d", round+1, b.rounds)
		l := rig.Load{
			Address: b.constant.Address, Requests: func(int) string { return "/" }, N: 16, Connections: b.connections,
			Burst: b.burst, Status: 302,
		}
		base, _, _, err := b.Measure(ctx, rig.Target{Name: "constant", Own: []int{b.constant.PID()}}, b.warmUp, l)
		if err != nil {
			return nil, err
		}
		constant = append(constant, figures{Figures: base})
		for _, name := range names {
			op, err := operationNamed(name)
			if err != nil {
				return nil, err
			}
			b.Say("%s", op.title)
			for _, c := range columns {
				f, err := b.measureOne(ctx, op, c.stand, uint64(round))
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.title, op.title, err)
				}
				c.measured[name] = append(c.measured[name], f)
			}
		}
	}
	return constant, nil
}

// load is a burst of an operation, or a number of requests from a turn on.
func (b *bench) load(op operation, s *stand, node, from, turns int, seed uint64) rig.Load {
	var drawn []int
	if op.link != nil && !op.once {
		drawn = s.draw(drawnVisits, seed)
	}
	l := rig.Load{
		Address: s.nodes[node].process.Address, Token: s.tenant.Token, Connections: max(1, b.connections/len(s.nodes)),
		Status:   http.StatusOK,
		Expected: op.good, First: b.next, N: turns,
		Requests: func(i int) string { return op.request(s.shape, from+i, drawn) },
	}
	if op.link != nil {
		l.Status = http.StatusFound
	}
	if turns == 0 {
		l.N, l.Burst = drawnVisits/8, b.burst
	}
	return l
}

// driveAll sends one load to each node at once.
func (b *bench) driveAll(
	ctx context.Context, op operation, s *stand, from, turns int, warm bool, seed uint64,
) (all rig.Outcome, err error) {
	type result struct {
		rig.Outcome
		error
	}
	results := make(chan result, len(s.nodes))
	for node := range s.nodes {
		share := turns / len(s.nodes)
		l := b.load(op, s, node, from+node*share, share, seed+uint64(node))
		l.First = b.next + node*1_000_000_000 // numbers of new links do not overlap
		if warm && l.Burst > 0 {
			l.Burst = b.warmUp
		}
		go func() {
			o, err := b.Drive(ctx, op.name+", "+s.title(), l)
			results <- result{o, err}
		}()
	}
	next := b.next
	for range s.nodes {
		r := <-results
		if r.error != nil {
			err = r.error
		}
		all.Right, all.CPU = all.Right+r.Right, all.CPU+r.CPU
		all.Took, all.P50, all.P99 = max(all.Took, r.Took), max(all.P50, r.P50), max(all.P99, r.P99)
		next = max(next, r.Next%1_000_000_000)
	}
	b.next = next
	return all, err
}

// measureOne drives the nodes of a stand for one burst after a warm-up. What they use until they
// are at rest is counted as well, where work is deferred.
func (b *bench) measureOne(ctx context.Context, op operation, s *stand, round uint64) (f figures, err error) {
	turns, from := op.turns, b.turn
	b.turn += 2 * drawnVisits // so that no two bursts are about the same links
	if op.once {
		turns, from = b.onceTurns(s.shape), s.cold
	}
	warm := turns / warmPart
	if turns > 0 {
		warm = max(warm, len(s.nodes))
	}
	if _, err := b.driveAll(ctx, op, s, from, warm, true, round); err != nil {
		return f, err
	}
	if err := b.rest(ctx, op, s); err != nil {
		return f, err
	}
	if op.once {
		from += warm
		s.cold = from + turns
	} else {
		from += drawnVisits
	}
	before, err := b.countAll(ctx, s)
	if err != nil {
		return f, err
	}
	o, err := b.driveAll(ctx, op, s, from, turns, false, round+1<<32)
	if err != nil {
		return f, err
	}
	if err := b.rest(ctx, op, s); err != nil {
		return f, err
	}
	after, err := b.countAll(ctx, s)
	each := func(before, after int64) float64 { return float64(after-before) / float64(max(o.Right, 1)) }
	return figures{
		rig.FiguresOf(o, after.usage.Minus(before.usage)), each(before.transactions, after.transactions),
		each(before.blocks, after.blocks),
		each(before.reads, after.reads), each(before.log, after.log) / 1024, each(before.commands, after.commands),
	}, err
}

// onceTurns is how many links a burst visits of those that are each visited once: there are enough
// for all bursts.
func (b *bench) onceTurns(s shape) int {
	return max(1, min(maxOnce, s.colds()*warmPart/(warmPart+1)/(2*b.rounds)-1))
}

// counts are what has been used so far.
type counts struct {
	usage                                      rig.Usage
	transactions, blocks, reads, log, commands int64
}

func (b *bench) countAll(ctx context.Context, s *stand) (c counts, err error) {
	const soFar = `SELECT xact_commit + xact_rollback, blks_hit + blks_read, blks_read, (SELECT wal_bytes::BIGINT FROM pg_stat_wal)
		FROM pg_stat_database WHERE datname = current_database()`
	if err := s.conn.QueryRow(ctx, soFar).Scan(&c.transactions, &c.blocks, &c.reads, &c.log); err != nil {
		return c, err
	}
	info, err := b.Services.Redis.InfoMap(ctx, "stats").Result()
	if err != nil {
		return c, err
	}
	if c.commands, err = strconv.ParseInt(info["Stats"]["total_commands_processed"], 10, 64); err != nil {
		return c, err
	}
	t := b.target(s)
	c.usage, err = rig.Used(t.Own, t.Beside)
	return c, err
}
