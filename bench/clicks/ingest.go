package main

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
)

const (
	// waiting is how many clicks may wait in the log before the next is recorded.
	waiting = 100_000
	// enough is how many clicks come before the jobs run, which is after the day that they fill: what
	// waits is written before them, and the batches are to be as full with few clicks a day as with
	// many.
	enough = 5000
)

// round is what became of some clicks.
type round struct {
	// clicks are how many, upTo how many there were after them.
	clicks, upTo int
	// generate is what it took to make them, ingest to record them and to wait until the database had
	// them, copying to COPY them.
	generate, ingest, copying time.Duration
	// seal, detail, forget and retain are what the jobs took meanwhile.
	seal, detail, forget, retain time.Duration
	// ingestLog, jobsLog and copyLog are what PostgreSQL has written to its log, in bytes.
	ingestLog, jobsLog, copyLog int64
}

// jobs are what they took together.
func (r round) jobs() time.Duration { return r.seal + r.detail + r.forget + r.retain }

// a is a part of a round for each of its clicks, in microseconds.
func (r round) a(part time.Duration) float64 {
	return part.Seconds() * 1e6 / float64(r.clicks)
}

// ingest sends all clicks, round after round, and has the jobs run a last time.
func (b *bench) ingest(ctx context.Context) error {
	clicks := make([]click.Click, 0, b.round)
	visible := time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		clicks = b.generate(clicks[:0])
		if len(clicks) == 0 {
			break
		}
		r := round{clicks: len(clicks), upTo: len(b.events), generate: time.Since(began)}
		if err := b.send(ctx, &r, clicks); err != nil {
			return err
		}
		if err := b.copy(ctx, &r, clicks); err != nil {
			return err
		}
		b.rounds = append(b.rounds, r)
		if time.Since(visible) > 5*time.Second || len(b.events) == b.total {
			visible = time.Now()
			b.say("%s: %d clicks, %.1f µs each, jobs %.1f µs", b.kind, len(b.events), r.a(r.ingest), r.a(r.jobs()))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.set(b.end)
	if err := b.work(ctx, &b.rounds[len(b.rounds)-1]); err != nil {
		return err
	}
	return b.count(ctx)
}

// generate makes the clicks of a round, and remembers them.
func (b *bench) generate(clicks []click.Click) []click.Click {
	var c click.Click
	for len(clicks) < b.round {
		e, ok := b.stream.next(&c)
		if !ok {
			break
		}
		c.WorkspaceID = b.owner(int(e.link)).ID()
		b.events = append(b.events, e)
		clicks = append(clicks, c)
	}
	return clicks
}

// send records clicks, and waits until the database has them. Between days it has the jobs run.
func (b *bench) send(ctx context.Context, r *round, clicks []click.Click) error {
	rest := clicks
	for len(rest) > 0 {
		n := b.untilJobs(rest)
		before, began := b.walPosition(ctx), time.Now()
		if err := b.sendAll(ctx, rest[:n]); err != nil {
			return err
		}
		r.ingest += time.Since(began)
		r.ingestLog += b.walPosition(ctx) - before
		rest = rest[n:]
		if len(rest) > 0 {
			if err := b.work(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilJobs is how many of the clicks come before the jobs run. The clock then is at the midnight
// (UTC) that has passed.
func (b *bench) untilJobs(clicks []click.Click) int {
	for i := range clicks {
		if d := dayOf(clicks[i].ClickedAt); d != b.today {
			b.today = d
			if b.untended >= enough {
				b.untended = 0
				return i
			}
		}
		b.untended++
	}
	return len(clicks)
}

func (b *bench) sendAll(ctx context.Context, clicks []click.Click) error {
	for i := range clicks {
		c := clicks[i]
		c.IsVisit = false // the database finds out
		b.set(c.ClickedAt)
		b.recorder.Record(&c)
		if i%1000 == 0 && b.recorder.Stats().Waiting > waiting {
			if err := b.recorder.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return b.recorder.Flush(ctx)
}

// work does what the jobs do once a day is over.
func (b *bench) work(ctx context.Context, r *round) error {
	if b.now() != b.end {
		b.set(time.Unix(b.today*int64(day/time.Second), 0))
	}
	before := b.walPosition(ctx)
	for _, job := range []struct {
		took *time.Duration
		run  func(context.Context) error
	}{{&r.seal, b.store.Seal}, {&r.detail, b.store.Detail}, {&r.forget, b.store.ForgetVisitors},
		{&r.retain, b.store.Retain}} {
		began := time.Now()
		if err := job.run(ctx); err != nil {
			return err
		}
		*job.took += time.Since(began)
	}
	r.jobsLog += b.walPosition(ctx) - before
	return nil
}

// count sees that no click was lost, and none counted twice.
func (b *bench) count(ctx context.Context) error {
	if s := b.recorder.Stats(); s.Lost > 0 || s.Poison > 0 || s.Waiting > 0 || s.Ingested != int64(b.total) {
		b.wrongly("the recorder says %+v, want %d clicks ingested", s, b.total)
	}
	t, err := b.store.Platform(ctx)
	if err != nil {
		return err
	}
	if t.Clicks != int64(b.total) {
		b.wrongly("the links have %d clicks, want %d", t.Clicks, b.total)
	}
	return nil
}

// size is the room that a table takes, with its indexes.
type size struct {
	table string
	bytes int64
}

// tables are what clicks are kept in.
var tables = []string{"clicks", "click_buckets", "click_days", "click_details", "click_totals", "visitors",
	"click_batches"}

// tidy does what PostgreSQL's own workers do in time, and finds out how much room everything takes.
func (b *bench) tidy(ctx context.Context) error {
	if b.kind == db.SQLite {
		return b.sizeOfFile(ctx)
	}
	for _, table := range tables {
		if _, err := b.db.ExecContext(db.AsOwner(ctx), "VACUUM ANALYZE "+table); err != nil {
			return fmt.Errorf("tidying %s up: %w", table, err)
		}
		s := size{table: table}
		err := b.db.NewRaw(`SELECT pg_total_relation_size(?0::regclass) +
			coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(?0::regclass) WHERE level > 0), 0)::BIGINT`, table).
			Scan(db.AsOwner(ctx), &s.bytes)
		if err != nil {
			return fmt.Errorf("the size of %s: %w", table, err)
		}
		b.sizes = append(b.sizes, s)
	}
	return nil
}

// sizeOfFile is that of SQLite's file, with everything in it.
func (b *bench) sizeOfFile(ctx context.Context) error {
	if _, err := b.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	var bytes int64
	err := b.db.NewRaw("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(ctx, &bytes)
	b.sizes = append(b.sizes, size{"the file", bytes})
	return err
}
