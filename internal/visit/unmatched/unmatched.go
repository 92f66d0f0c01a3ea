// Package unmatched counts requests for short URLs that matched no active link, so that a workspace
// notices a broken campaign. It buffers the counts in memory and writes them every second; unlike
// clicks, the last second of a killed process is lost. The redirect handler records requests,
// resolvers list them.
package unmatched

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// retentionDays is how long requests are stored.
	retentionDays = 90
	// maxBuffered bounds the counts in memory, maxCodesPerDay the codes that are stored for a
	// workspace and day. Requests for further codes are counted together, so that guessing codes
	// does not fill the database.
	maxBuffered    = 10_000
	maxCodesPerDay = 1000
	// flushInterval is the time between two writes, writeTimeout the longest time that one takes.
	flushInterval = time.Second
	writeTimeout  = 5 * time.Second
)

// Request is the number of requests for one code of a workspace that were answered with a status.
type Request struct {
	bun.BaseModel `bun:"table:unmatched,alias:unmatched"`

	WorkspaceID string `bun:",pk"`
	// Day counts UTC days since 1970.
	Day int64 `bun:",pk"`
	// Code is the requested code; empty for all codes beyond maxCodesPerDay.
	Code string `bun:",pk"`
	// Status is the HTTP status of the response: 404, 410 or 429.
	Status   int `bun:",pk"`
	Requests int64
	// LastAt is the time of the latest request.
	LastAt time.Time
}

// Recorder counts unmatched requests.
type Recorder struct {
	DB *db.DB
	// Log receives failures of writes.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	mu     sync.Mutex
	buffer map[requestKey]*Request
}

type requestKey struct {
	workspaceID string
	day         int64
	code        string
	status      int
}

// Add counts a request for a code of a workspace.
func (r *Recorder) Add(workspaceID, code string, status int, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := requestKey{workspaceID, click.DayOf(at), code, status}
	if r.buffer[key] == nil && len(r.buffer) >= maxBuffered {
		key.code = ""
	}
	one := r.buffer[key]
	if one == nil {
		if r.buffer == nil {
			r.buffer = map[requestKey]*Request{}
		}
		one = &Request{WorkspaceID: workspaceID, Day: key.day, Code: key.code, Status: status}
		r.buffer[key] = one
	}
	one.Requests++
	one.LastAt = db.Instant(at)
}

// Run writes the buffer every second until the context ends, and a last time then. It logs the
// first of consecutive failures.
func (r *Recorder) Run(ctx context.Context) error {
	failures := poll.Failures{Log: r.Log, Message: "writing unmatched requests failed"}
	for {
		ended := poll.Wait(ctx, flushInterval) != nil
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		err := r.Flush(writing)
		cancel()
		failures.Report(context.WithoutCancel(ctx), err)
		if ended {
			return nil
		}
	}
}

// Flush writes the buffer.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	buffer := r.buffer
	r.buffer = nil
	r.mu.Unlock()
	byWorkspace := map[string][]*Request{}
	for _, one := range buffer {
		byWorkspace[one.WorkspaceID] = append(byWorkspace[one.WorkspaceID], one)
	}
	var failed error
	for workspaceID, rows := range byWorkspace {
		if err := r.write(db.AsSystem(ctx), workspaceID, rows); err != nil {
			failed = fmt.Errorf("counting unmatched requests: %w", err)
		}
	}
	return failed
}

// write adds rows to the stored counts. New codes beyond maxCodesPerDay are counted together.
//
// Several nodes count the same requests. One statement that locks the rows in the order of their
// key keeps them from blocking each other in a circle.
func (r *Recorder) write(ctx context.Context, workspaceID string, rows []*Request) error {
	return r.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		stored, err := limitCodes(ctx, tx, workspaceID, rows)
		if err != nil {
			return err
		}
		_, err = tx.NewInsert().Model(&stored).On("CONFLICT (workspace_id, day, code, status) DO UPDATE").
			Set("requests = unmatched.requests + excluded.requests").
			Set("last_at = excluded.last_at").Returning("NULL").Exec(ctx)
		return err
	})
}

// limitCodes returns the rows in the order of their key. Rows of new codes beyond maxCodesPerDay
// are merged into a row without a code.
func limitCodes(ctx context.Context, tx bun.Tx, workspaceID string, rows []*Request) ([]*Request, error) {
	var stored []*Request
	days := map[int64]bool{}
	for _, row := range rows {
		days[row.Day] = true
	}
	err := tx.NewSelect().Model(&stored).Column("day", "code", "status").Where("workspace_id = ?", workspaceID).
		Where("day IN (?)", bun.List(slices.Collect(maps.Keys(days)))).Where("code <> ''").Scan(ctx)
	if err != nil {
		return nil, err
	}
	known, codesOfDay := map[requestKey]bool{}, map[int64]int{}
	for _, row := range stored {
		known[requestKey{workspaceID, row.Day, row.Code, row.Status}] = true
		codesOfDay[row.Day]++
	}
	merged := map[requestKey]*Request{}
	for _, row := range rows {
		key := requestKey{workspaceID, row.Day, row.Code, row.Status}
		if !known[key] && codesOfDay[key.day] >= maxCodesPerDay {
			key.code = ""
		} else if !known[key] {
			codesOfDay[key.day]++
		}
		total := merged[key]
		if total == nil {
			total = &Request{WorkspaceID: workspaceID, Day: key.day, Code: key.code, Status: key.status}
			merged[key] = total
		}
		total.Requests += row.Requests
		if row.LastAt.After(total.LastAt) {
			total.LastAt = row.LastAt
		}
	}
	return slices.SortedFunc(maps.Values(merged), func(a, b *Request) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Status, b.Status))
	}), nil
}

// maxListed is the largest number of rows that List returns.
const maxListed = 100

// List returns the unmatched requests of a workspace in the last 90 days, by code and status, the
// most frequent first. It returns InvalidInput or Forbidden.
func (r *Recorder) List(ctx context.Context, m workspace.Membership, first int) ([]*Request, error) {
	ctx, err := m.EnterWhole(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	if first < 1 || first > maxListed {
		return nil, errs.New(errs.InvalidInput, "first must be from 1 to %d.", maxListed).At("first")
	}
	found := []*Request{}
	err = r.DB.NewSelect().Model(&found).Column("code", "status").
		ColumnExpr("CAST(SUM(requests) AS BIGINT) AS requests").ColumnExpr("MAX(last_at) AS last_at").
		Where("workspace_id = ?", m.ID()).Where("day >= ?", click.DayOf(r.Now())-retentionDays).
		Group("code", "status").OrderExpr("3 DESC, code, status").Limit(int64(first)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading unmatched requests: %w", err)
	}
	return found, nil
}

// DeleteExpired deletes requests that are older than 90 days.
func (r *Recorder) DeleteExpired(ctx context.Context) error {
	_, err := r.DB.NewDelete().Model((*Request)(nil)).Where("day < ?", click.DayOf(r.Now())-retentionDays).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("deleting expired unmatched requests: %w", err)
	}
	return nil
}

// purgeBatch bounds a statement.
const purgeBatch = 5000

// Purge deletes all requests of a workspace.
func (r *Recorder) Purge(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	batch := r.DB.NewSelect().Model((*Request)(nil)).Column("workspace_id", "day", "code", "status").
		Where("workspace_id = ?", workspaceID).Limit(purgeBatch)
	_, err := db.InBatches(purgeBatch, func() (int64, error) {
		return db.Affected(r.DB.NewDelete().Model((*Request)(nil)).Where("(workspace_id, day, code, status) IN (?)",
			batch).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("deleting unmatched requests: %w", err)
	}
	return nil
}
