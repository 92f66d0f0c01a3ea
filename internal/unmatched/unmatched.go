// Package unmatched counts requests for short URLs that matched no active link, so that a broken
// campaign is noticed. The counts are kept in memory and written every second. The redirect handler
// records; resolvers list.
package unmatched

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// orphansKept is how long requests that led nowhere are remembered, in days.
	orphansKept = 90
	// orphansAtOnce bounds what is counted in memory, orphanCodes the codes of a workspace and day
	// that are told apart: whoever tries codes out fills nobody's disk.
	orphansAtOnce = 10_000
	orphanCodes   = 1000
	// orphanFlush is how often what was counted is written.
	orphanFlush = time.Second
)

// Request is requests for an address of a workspace that led nowhere.
type Request struct {
	bun.BaseModel `bun:"table:orphans,alias:orphan"`

	WorkspaceID string `bun:",pk"`
	Day         int64  `bun:",pk"`
	// Code is what was asked for; empty stands for all codes that are not told apart.
	Code string `bun:",pk"`
	// Status is what was answered: 404, 410 or 429.
	Status   int `bun:",pk"`
	Requests int64
	// LastAt is when it was last asked for.
	LastAt time.Time
}

// Recorder count requests that led nowhere, so that a broken campaign is seen. They are counted in
// memory and written every second: unlike clicks, those of a process that is killed are lost.
type Recorder struct {
	// DB is the database.
	DB *db.DB
	// Log is told what goes wrong.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	counted map[orphanKey]*Request
}

type orphanKey struct {
	workspaceID string
	day         int64
	code        string
	status      int
}

// Add counts a request for a code of a workspace.
func (o *Recorder) Add(workspaceID, code string, status int, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := orphanKey{workspaceID, click.DayOf(at), code, status}
	if o.counted[key] == nil && len(o.counted) >= orphansAtOnce {
		key.code = ""
	}
	one := o.counted[key]
	if one == nil {
		if o.counted == nil {
			o.counted = map[orphanKey]*Request{}
		}
		one = &Request{WorkspaceID: workspaceID, Day: key.day, Code: key.code, Status: status}
		o.counted[key] = one
	}
	one.Requests++
	one.LastAt = db.Instant(at)
}

// Run writes until the context ends, and then what is left. That it does not work is logged once.
func (o *Recorder) Run(ctx context.Context) error {
	failures := poll.Failures{Log: o.Log, Message: "requests that led nowhere are not written"}
	for {
		ended := poll.Wait(ctx, orphanFlush) != nil
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), orphanFlush)
		err := o.Flush(writing)
		cancel()
		failures.Report(context.WithoutCancel(ctx), err)
		if ended {
			return nil
		}
	}
}

// Flush writes what was counted.
func (o *Recorder) Flush(ctx context.Context) error {
	o.mu.Lock()
	counted := o.counted
	o.counted = nil
	o.mu.Unlock()
	byWorkspace := map[string][]*Request{}
	for _, one := range counted {
		byWorkspace[one.WorkspaceID] = append(byWorkspace[one.WorkspaceID], one)
	}
	var failed error
	for workspaceID, rows := range byWorkspace {
		if err := o.write(db.AsSystem(ctx), workspaceID, rows); err != nil {
			failed = fmt.Errorf("counting requests that led nowhere: %w", err)
		}
	}
	return failed
}

// write adds to what there is. New codes of a day that has enough of them are counted together.
func (o *Recorder) write(ctx context.Context, workspaceID string, rows []*Request) error {
	return o.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		room := map[int64]int{}
		for _, one := range rows {
			if _, ok := room[one.Day]; !ok {
				n, err := tx.NewSelect().Model((*Request)(nil)).Where("workspace_id = ?", workspaceID).Where("day = ?", one.Day).
					Count(ctx)
				if err != nil {
					return err
				}
				room[one.Day] = orphanCodes - int(n)
			}
			row := *one
			if room[one.Day]--; room[one.Day] < 0 {
				known, err := tx.NewSelect().Model(&row).WherePK().Exists(ctx)
				if err != nil {
					return err
				}
				if !known {
					row.Code = ""
				}
			}
			_, err := tx.NewInsert().Model(&row).On("CONFLICT (workspace_id, day, code, status) DO UPDATE").
				Set("requests = orphan.requests + excluded.requests").
				Set("last_at = excluded.last_at").Returning("NULL").Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// mostOrphans bounds a list.
const mostOrphans = 100

// List returns the requests for addresses of a workspace that led nowhere in the last 90 days, the
// most frequent first. It returns InvalidInput or Forbidden.
func (o *Recorder) List(ctx context.Context, m workspace.Membership, first int) ([]*Request, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	if first < 1 || first > mostOrphans {
		return nil, errs.New(errs.InvalidInput, "first goes from 1 to %d.", mostOrphans).At("first")
	}
	found := []*Request{}
	err = o.DB.NewSelect().Model(&found).Column("code", "status").
		ColumnExpr("CAST(SUM(requests) AS BIGINT) AS requests").ColumnExpr("MAX(last_at) AS last_at").
		Where("workspace_id = ?", m.ID()).Where("day >= ?", click.DayOf(o.Now())-orphansKept).
		Group("code", "status").OrderExpr("3 DESC, code, status").Limit(int64(first)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading requests that led nowhere: %w", err)
	}
	return found, nil
}

// Forget removes what is older than 90 days.
func (o *Recorder) Forget(ctx context.Context) error {
	_, err := o.DB.NewDelete().Model((*Request)(nil)).Where("day < ?", click.DayOf(o.Now())-orphansKept).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("forgetting requests that led nowhere: %w", err)
	}
	return nil
}
