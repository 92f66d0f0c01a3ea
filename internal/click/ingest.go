package click

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// ingest writes a batch that ends at the position of its log: the clicks, the sums and the position in one
// transaction. A batch whose position has been reached changes nothing, so a commit whose answer got lost can
// be tried again.
func ingest(ctx context.Context, d *db.DB, logID string, position int64, batch []Click) error {
	err := d.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		if first, err := advance(ctx, tx, logID, position); err != nil || !first || len(batch) == 0 {
			return err
		}
		buckets, totals := sum(batch)
		if err := merge(ctx, tx, &totals, "CONFLICT (link_id) DO UPDATE"); err != nil {
			return err
		}
		clicks := slices.Clone(batch)
		for i := range clicks {
			clicks[i].ID = id.New(id.Click)
		}
		follow(totals, clicks, buckets)
		if _, err := tx.NewInsert().Model(&clicks).Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		return merge(ctx, tx, &buckets, "CONFLICT (link_id, starts_at) DO UPDATE")
	})
	if err != nil {
		return fmt.Errorf("writing %d clicks: %w", len(batch), err)
	}
	return nil
}

// advance moves the log's position forward, and reports false when it is there already.
func advance(ctx context.Context, tx bun.Tx, logID string, position int64) (bool, error) {
	err := tx.NewRaw(`INSERT INTO click_logs AS l (id, position) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET position = excluded.position WHERE l.position < excluded.position
		RETURNING position`, logID, position).Scan(ctx, &position)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// follow puts clicks and buckets into the workspaces of their links' totals, which the database has told: a link may
// have moved since its clicks were recorded. The totals' rows are locked, so none moves before the commit.
func follow(totals []total, clicks []Click, buckets []bucket) {
	workspaces := make(map[string]string, len(totals))
	for _, t := range totals {
		workspaces[t.LinkID] = t.WorkspaceID
	}
	for i := range clicks {
		clicks[i].WorkspaceID = workspaces[clicks[i].LinkID]
	}
	for i := range buckets {
		buckets[i].WorkspaceID = workspaces[buckets[i].LinkID]
	}
}

// merge adds tallies to those that are there, in one statement, by Chan's formula, and reads their workspaces back.
func merge(ctx context.Context, tx bun.Tx, tallies any, onConflict string) error {
	_, err := tx.NewInsert().Model(tallies).On(onConflict).
		Set("clicks = ?TableAlias.clicks + excluded.clicks").
		Set(`latency_mean = ?TableAlias.latency_mean + (excluded.latency_mean - ?TableAlias.latency_mean)
			* excluded.clicks / (?TableAlias.clicks + excluded.clicks)`).
		Set(`latency_m2 = ?TableAlias.latency_m2 + excluded.latency_m2
			+ (excluded.latency_mean - ?TableAlias.latency_mean) * (excluded.latency_mean - ?TableAlias.latency_mean)
			* ?TableAlias.clicks * excluded.clicks / (?TableAlias.clicks + excluded.clicks)`).
		Returning("link_id, workspace_id").
		Exec(ctx)
	return err
}

// sum merges a batch in memory, so that each row is written once. The rows are in the order of their keys:
// nodes that write the same rows at once then wait for each other instead of deadlocking.
func sum(batch []Click) ([]bucket, []total) {
	type slot struct {
		link  string
		start time.Time
	}
	slots, links := map[slot]*bucket{}, map[string]*total{}
	for _, c := range batch {
		at := slot{c.LinkID, c.ClickedAt.UTC().Truncate(BucketLength)}
		if slots[at] == nil {
			slots[at] = &bucket{LinkID: c.LinkID, StartsAt: at.start, WorkspaceID: c.WorkspaceID}
		}
		if links[c.LinkID] == nil {
			links[c.LinkID] = &total{LinkID: c.LinkID, WorkspaceID: c.WorkspaceID}
		}
		slots[at].Add(c.LatencyMs)
		links[c.LinkID].Add(c.LatencyMs)
	}
	buckets := make([]bucket, 0, len(slots))
	for _, b := range slots {
		buckets = append(buckets, *b)
	}
	slices.SortFunc(buckets, func(a, b bucket) int {
		return cmp.Or(cmp.Compare(a.LinkID, b.LinkID), a.StartsAt.Compare(b.StartsAt))
	})
	totals := make([]total, 0, len(links))
	for _, t := range links {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, func(a, b total) int { return cmp.Compare(a.LinkID, b.LinkID) })
	return buckets, totals
}
