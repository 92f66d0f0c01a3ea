package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// restPatience is how long a server may go on working after its requests.
	restPatience = 15 * time.Second
	// mostOnce is how many links are looked for in a burst that asks for each once.
	mostOnce = 10_000
	// warmPart is how large a part of those comes before the burst, in place of a time.
	warmPart = 10
)

// figures are what one burst showed.
type figures struct {
	own      float64 // CPU µs of the nodes for an operation
	beside   float64 // the same, of PostgreSQL and Redis
	p50, p99 float64 // ms
	rate     float64 // operations a second
	// The rest is for an operation, with what the nodes do by themselves meanwhile: transactions of PostgreSQL, blocks that it looked
	// at and those among them that its own memory did not have, what it logged in KiB, and commands of Redis.
	transactions, blocks, reads, log, commands float64
}

func (f figures) cpu() float64 { return f.own + f.beside }

// column is one size, with what each operation showed in each round.
type column struct {
	title string
	*stand
	seen map[string][]figures
}

// takeTurns measures all operations at all sizes, size after size, right after the constant handler.
func (b *bench) takeTurns(ctx context.Context, names []string, columns []*column) (constant []figures, err error) {
	for round := range b.rounds {
		b.say("round %d of %d", round+1, b.rounds)
		base, err := b.measureConstant(ctx, columns[0].shape)
		if err != nil {
			return nil, err
		}
		constant = append(constant, base)
		for _, name := range names {
			op, err := operationNamed(name)
			if err != nil {
				return nil, err
			}
			b.say("%s", op.title)
			for _, c := range columns {
				f, err := b.measureOne(ctx, op, c.stand, uint64(round))
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.title, op.title, err)
				}
				c.seen[name] = append(c.seen[name], f)
			}
		}
	}
	return constant, nil
}

// measureConstant drives the handler that does nothing but redirect.
func (b *bench) measureConstant(ctx context.Context, s shape) (figures, error) {
	l := load{Operation: "hot", Shape: s, Addresses: []string{b.constant.Address}, Connections: b.connections, Burst: b.warmUp}
	if _, err := b.drive(ctx, l); err != nil {
		return figures{}, err
	}
	before, err := rig.CPU([]int{b.constant.PID()})
	if err != nil {
		return figures{}, err
	}
	l.Burst = b.burst
	o, err := b.drive(ctx, l)
	if err != nil {
		return figures{}, err
	}
	after, err := rig.CPU([]int{b.constant.PID()})
	return figures{own: rig.Micros(after-before) / float64(max(o.Right, 1)), p50: rig.Millis(o.P50), p99: rig.Millis(o.P99)}, err
}

// measureOne drives the nodes of a stand for one burst, once they are in their stride. What they use until they are at rest
// is counted as well, where there is something to do after the answers.
func (b *bench) measureOne(ctx context.Context, op operation, s *stand, round uint64) (figures, error) {
	l := load{
		Operation: op.name, Shape: s.shape, Addresses: s.addresses(), Token: s.tenant.Token, Connections: b.connections,
		First: b.next, Burst: b.warmUp, Seed: round,
	}
	if op.once {
		l.First, l.Turns = s.cold, max(1, b.onceTurns(s.shape)/warmPart)
	}
	if op.turns > 0 {
		l.Turns = op.turns / warmPart
	}
	o, err := b.drive(ctx, l)
	if err != nil {
		return figures{}, err
	}
	if err := b.rest(ctx, op, s); err != nil {
		return figures{}, err
	}
	l.First, l.Burst, l.Seed = o.Next, b.burst, round+1<<32
	if op.once {
		l.First, l.Turns = s.cold+l.Turns, b.onceTurns(s.shape)
		s.cold = l.First + l.Turns
	}
	if op.turns > 0 {
		l.First, l.Turns = b.next+l.Turns, op.turns
	}
	before, err := b.countAll(ctx, s)
	if err != nil {
		return figures{}, err
	}
	if o, err = b.drive(ctx, l); err != nil {
		return figures{}, err
	}
	if err := b.rest(ctx, op, s); err != nil {
		return figures{}, err
	}
	after, err := b.countAll(ctx, s)
	if !op.once {
		b.next = max(b.next, o.Next) // which callers have passed who found that there was no turn left
	}
	return figuresOf(o, before, after), err
}

// rest waits until what an operation puts off is done: nodes let clicks wait in their logs, and rest themselves meanwhile.
func (b *bench) rest(ctx context.Context, op operation, s *stand) error {
	if !op.puts {
		return nil
	}
	for _, n := range s.nodes {
		if err := n.awaitIngested(ctx); err != nil {
			return err
		}
	}
	_, err := rig.Rest(ctx, append(s.pids(), b.services.PIDs()...), restPatience)
	return err
}

// onceTurns is how many links are looked for in a burst of those that are each asked for once: all bursts of both operations, with
// what comes before them, have enough.
func (b *bench) onceTurns(s shape) int {
	bursts := 2 * b.rounds
	return max(1, min(mostOnce, s.colds()*warmPart/(warmPart+1)/bursts-1))
}

// counts are what has been used so far.
type counts struct {
	usage                                      rig.Usage
	transactions, blocks, reads, log, commands int64
}

func figuresOf(o outcome, before, after counts) figures {
	n, used := float64(max(o.Right, 1)), after.usage.Minus(before.usage)
	each := func(before, after int64) float64 { return float64(after-before) / n }
	return figures{
		own: rig.Micros(used.Own) / n, beside: rig.Micros(used.Beside) / n, p50: rig.Millis(o.P50), p99: rig.Millis(o.P99),
		rate: float64(o.Right) / o.Took.Seconds(), transactions: each(before.transactions, after.transactions),
		blocks: each(before.blocks, after.blocks), reads: each(before.reads, after.reads), log: each(before.log, after.log) / 1024,
		commands: each(before.commands, after.commands),
	}
}

func (b *bench) countAll(ctx context.Context, s *stand) (c counts, err error) {
	const soFar = `SELECT xact_commit + xact_rollback, blks_hit + blks_read, blks_read, (SELECT wal_bytes::BIGINT FROM pg_stat_wal)
		FROM pg_stat_database WHERE datname = current_database()`
	if err := s.conn.QueryRow(ctx, soFar).Scan(&c.transactions, &c.blocks, &c.reads, &c.log); err != nil {
		return c, err
	}
	if c.commands, err = b.redisCommands(ctx); err != nil {
		return c, err
	}
	c.usage, err = rig.Used(s.pids(), b.services.PIDs())
	return c, err
}

func (b *bench) redisCommands(ctx context.Context) (int64, error) {
	options, err := redis.ParseURL(b.services.RedisURL)
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	info, err := client.InfoMap(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(info["Stats"]["total_commands_processed"], 10, 64)
}

// drive has the load generator ask servers, and notes what should not have happened.
func (b *bench) drive(ctx context.Context, l load) (o outcome, err error) {
	in, err := json.Marshal(l)
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, b.self, "load")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("the load generator: %w", err)
	}
	if err := json.Unmarshal(out, &o); err != nil {
		return o, fmt.Errorf("the load generator: %w", err)
	}
	where := fmt.Sprintf("%s, %s links", l.Operation, thousands(l.Shape.Links))
	if o.Wrong > 0 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %d answers were wrong, one of them %s", where, o.Wrong, o.Sample))
	}
	if len(o.Broken) > 0 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %d connections broke: %s", where, len(o.Broken), strings.Join(o.Broken, "; ")))
	}
	return o, nil
}

// quiet is what nodes cost that nobody asks, in CPU ms a second.
type quiet struct{ node, beside float64 }

// watch watches a stand while nothing is asked.
func (b *bench) watch(ctx context.Context, s *stand) (quiet, error) {
	before, err := rig.Used(s.pids(), b.services.PIDs())
	if err != nil {
		return quiet{}, err
	}
	select {
	case <-ctx.Done():
		return quiet{}, ctx.Err()
	case <-time.After(b.idle):
	}
	after, err := rig.Used(s.pids(), b.services.PIDs())
	used := after.Minus(before)
	return quiet{
		node:   rig.Millis(used.Own) / used.At.Seconds() / float64(len(s.nodes)),
		beside: rig.Millis(used.Beside) / used.At.Seconds(),
	}, err
}
