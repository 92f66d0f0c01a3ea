package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/wal"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

const (
	// adoptEvery is how often a process looks for the logs of others that have died. adoptBatch is
	// small, because on SQLite statements of redirects wait for the batch.
	adoptEvery = 10 * time.Second
	adoptBatch = 2000
)

// batch is a part of a log: its clicks, and where it ends.
type batch struct {
	clickstore.Batch
	leases []*hitquota.Lease
	source *wal.Log
}

// next reads the batch that begins at the position, of at most most records. Invalid records are
// set aside.
func (r *Recorder) next(j *wal.Log, position int64, most int) (*batch, error) {
	chunk, err := j.Read(position, most)
	if err != nil {
		return nil, err
	}
	b := &batch{Batch: clickstore.Batch{Log: j.ID(), To: chunk.Next}, source: j}
	if len(chunk.Damaged) > 0 {
		r.setAside(j, chunk.Damaged)
	}
	for _, record := range chunk.Records {
		c, l, err := parseRecord(record.Data)
		switch {
		case err != nil:
			r.setAside(j, record.Data)
		case c != nil:
			c.End = record.End
			b.Clicks = append(b.Clicks, *c)
		default:
			b.leases = append(b.leases, l)
		}
	}
	return b, nil
}

func (r *Recorder) setAside(j *wal.Log, data []byte) {
	r.poison.Add(1)
	if j == r.journal {
		r.aside++
	}
	r.Logger.Error("a record of the click log was set aside", "log", j.ID(), "bytes", len(data))
	if err := j.SetAside(data); err != nil {
		r.Logger.Error("a record that cannot be used was not kept", "error", err)
	}
}

// setForeignAside sets aside the clicks of workspaces that do not exist, such as those of another
// instance's log: no member could read them, and no job would delete them.
func (r *Recorder) setForeignAside(ctx context.Context, b *batch) error {
	unknown, err := r.ledger.UnknownWorkspaces(ctx, b.Clicks)
	if err != nil || len(unknown) == 0 {
		return err
	}
	b.Clicks = slices.DeleteFunc(slices.Clone(b.Clicks), func(c click.Click) bool {
		if unknown[c.WorkspaceID] {
			r.setAside(b.source, appendClick(nil, &c))
		}
		return unknown[c.WorkspaceID]
	})
	return nil
}

// ingestHalves writes a batch with clicks that the database refuses. It bisects the batch to find
// them, and sets them aside.
func (r *Recorder) ingestHalves(ctx context.Context, b *batch) error {
	if len(b.Clicks) == 1 {
		r.setAside(b.source, appendClick(nil, &b.Clicks[0]))
		return r.clicks.Write(ctx, clickstore.Batch{Log: b.Log, To: b.To})
	}
	middle := len(b.Clicks) / 2
	first, second := *b, *b
	first.Clicks, first.To = b.Clicks[:middle], b.Clicks[middle-1].End
	second.Clicks = b.Clicks[middle:]
	if err := r.ingest(ctx, &first); err != nil {
		return err
	}
	return r.ingest(ctx, &second)
}

// Adopt ingests the logs of dead processes, returns their unused hits, and removes the logs. It
// runs while the node redirects: the counters contain all leased hits of the dead processes, or
// else their clicks.
func (r *Recorder) Adopt(ctx context.Context) error {
	_, err := r.adoptAll(ctx, r.Dir, false)
	return err
}

// Adopted is what came of logs that lay elsewhere.
type Adopted struct {
	// Logs is the number of logs that were ingested and removed, Clicks the number of their clicks
	// that were not yet in the database.
	Logs, Clicks int
	// Held are the logs that processes have which live: they are left alone.
	Held []string
}

// AdoptFrom is Adopt for the logs of another node in a folder. It is idempotent. It returns
// InvalidInput when the folder contains anything but click logs, because logs are removed.
func (r *Recorder) AdoptFrom(ctx context.Context, dir string) (a Adopted, err error) {
	before, err := logsIn(dir)
	if err != nil {
		return a, err
	}
	a.Clicks, err = r.adoptAll(ctx, dir, true)
	left, problem := logsIn(dir)
	a.Logs = len(before) - len(left)
	if err == nil {
		a.Held = left
	}
	return a, errors.Join(err, problem)
}

// logsIn are the logs whose folders are within dir.
func logsIn(dir string) (logs []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for click logs: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !id.Valid(id.Log, e.Name()) {
			return nil, errs.New(errs.InvalidInput, "%s has a folder %q, which is no click log: "+
				"remove it from there, or name another folder.",
				dir, e.Name())
		}
		if e.IsDir() {
			logs = append(logs, e.Name())
		}
	}
	return logs, nil
}

func (r *Recorder) adoptAll(ctx context.Context, dir string, byOperator bool) (clicks int, err error) {
	found, err := wal.Found(dir)
	if r.leases != nil {
		count := func(m click.Month) (map[string]click.MonthCount, error) { return r.countAll(ctx, found, m) }
		if problem := r.leases.Carry(ctx, count); problem != nil {
			for _, j := range found {
				problem = errors.Join(problem, j.Close()) // for the next time
			}
			return 0, errors.Join(err, problem)
		}
	}
	for _, j := range found { // one that cannot be ingested keeps none of the others waiting
		n, problem := r.adopt(ctx, j, byOperator)
		if clicks += n; problem != nil {
			err = errors.Join(err, problem, j.Close()) // for the next time
		}
	}
	return clicks, err
}

// adopt ingests a log up to its end, from the position that the database has for its identity: a
// copy adds nothing that was ingested before. The process of a copied log may be alive, and use its
// leases, unless the operator says that it is not.
func (r *Recorder) adopt(ctx context.Context, j *wal.Log, byOperator bool) (adopted int, err error) {
	position, err := r.ledger.Position(ctx, j.ID())
	if err != nil {
		return 0, err
	}
	open := map[int64]*hitquota.Lease{}
	used := map[int64]int64{}
	for at := int64(0); ; {
		b, err := r.next(j, at, adoptBatch)
		if err != nil {
			return adopted, err
		}
		if b.To == at {
			break
		}
		at = b.To
		for _, l := range b.leases {
			open[l.Number] = l
		}
		for _, c := range b.Clicks {
			used[c.HitLease]++
		}
		left := b.After(position)
		if len(left) == 0 {
			continue
		}
		if err := r.ingest(ctx, b); err != nil {
			return adopted, err
		}
		r.batches.Add(1)
		adopted += len(left)
	}
	if adopted > 0 {
		r.Logger.InfoContext(ctx, "the clicks of a process that has died are written", "log", j.ID(), "clicks", adopted)
	}
	if j.IsCopy() && !byOperator {
		r.Logger.WarnContext(ctx, "a copy of a click log was ingested: its leases stay", "log", j.ID())
	} else if err := r.giveBack(ctx, j.ID(), open, used); err != nil {
		return adopted, err
	}
	return adopted, j.Remove()
}

// countAll counts the clicks of a month, by link, that logs have and the database does not. Those
// of a log that cannot be read are missing.
func (r *Recorder) countAll(
	ctx context.Context, logs []*wal.Log, m click.Month,
) (map[string]click.MonthCount, error) {
	counts := map[string]click.MonthCount{}
	for _, j := range logs {
		position, err := r.ledger.Position(ctx, j.ID())
		if err != nil {
			return nil, err
		}
		if err := countClicks(j, position, m.Start(), counts); err != nil {
			r.Logger.ErrorContext(ctx, "a click log cannot be counted: links may exceed their quotas by its clicks",
				"log", j.ID(), "error", err)
		}
	}
	return counts, nil
}

func (r *Recorder) giveBack(
	ctx context.Context, logID string, open map[int64]*hitquota.Lease, used map[int64]int64,
) error {
	if r.leases == nil {
		return nil
	}
	leases := make([]hitquota.Lease, 0, len(open))
	for _, l := range open {
		l.Used = used[l.Number]
		leases = append(leases, *l)
	}
	return r.leases.Recover(ctx, logID, leases)
}
