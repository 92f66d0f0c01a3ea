package click

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// linksAtOnce is how many links are looked at between two looks for more.
const linksAtOnce = 500

// Difference is a link whose sums are not those of its clicks.
type Difference struct {
	LinkID string
	// Clicks is how many there are row by row, Total and Buckets what the sums say.
	Clicks, Total, Buckets int64
}

// Verify compares the sums of every link with its clicks, row by row, and calls found for each that differs; it returns how
// many links it has looked at. Each link is looked at in one transaction, so clicks may come in meanwhile.
func (s *Store) Verify(ctx context.Context, found func(Difference)) (links int, err error) {
	return s.eachLink(ctx, func(ctx context.Context, tx bun.Tx, linkID string) error {
		is, err := sumsOf(ctx, tx, linkID)
		if err != nil {
			return err
		}
		want, err := s.count(ctx, tx, linkID)
		if err == nil && !is.equal(want) {
			found(Difference{LinkID: linkID, Clicks: want.total.Clicks, Total: is.total.Clicks, Buckets: is.clicks()})
		}
		return err
	})
}

// Rebuild makes the sums of every link anew from its clicks, and returns how many links it has looked at. Whoever writes
// clicks of a link waits for its transaction.
func (s *Store) Rebuild(ctx context.Context) (links int, err error) {
	return s.eachLink(ctx, func(ctx context.Context, tx bun.Tx, linkID string) error {
		is, err := sumsOf(ctx, tx, linkID)
		if err != nil {
			return err
		}
		want, err := s.count(ctx, tx, linkID)
		if err != nil || is.equal(want) {
			return err
		}
		return want.write(ctx, tx, linkID, is.total.WorkspaceID)
	})
}

// eachLink locks the total of each link that has one, in the order of their ids as whoever writes clicks does, and makes one
// for links that have clicks and none.
func (s *Store) eachLink(ctx context.Context, do func(ctx context.Context, tx bun.Tx, linkID string) error) (links int, err error) {
	ctx = db.AsSystem(ctx)
	for last := ""; ; {
		var ids []string
		totals := s.DB.NewSelect().Model((*total)(nil)).Column("link_id").Where("link_id > ?", last)
		clicks := s.DB.NewSelect().Model((*Click)(nil)).Column("link_id").Where("link_id > ?", last)
		both := totals.Union(clicks)
		if err := s.DB.NewSelect().TableExpr("(?) AS links", both).Column("link_id").Order("link_id").Limit(linksAtOnce).Scan(ctx, &ids); err != nil {
			return links, fmt.Errorf("looking for links with clicks: %w", err)
		}
		if len(ids) == 0 {
			return links, nil
		}
		for _, linkID := range ids {
			if err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return do(ctx, tx, linkID) }); err != nil {
				return links, fmt.Errorf("the sums of %s: %w", linkID, err)
			}
			links++
		}
		last = ids[len(ids)-1]
	}
}

// sums are what is summed up of a link.
type sums struct {
	total   total
	buckets []bucket // in the order of time
}

func (s sums) clicks() (n int64) {
	for _, b := range s.buckets {
		n += b.Clicks
	}
	return n
}

// sumsOf reads the sums of a link, and keeps others from adding to them until the transaction ends.
func sumsOf(ctx context.Context, tx bun.Tx, linkID string) (s sums, err error) {
	_, err = tx.NewUpdate().Model((*total)(nil)).Set("clicks = clicks").Where("link_id = ?", linkID).Exec(ctx) // locks it, on either database
	if err == nil {
		err = tx.NewSelect().Model(&s.total).Where("link_id = ?", linkID).Scan(ctx)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, err
	}
	err = tx.NewSelect().Model(&s.buckets).Where("link_id = ?", linkID).Order("starts_at").Scan(ctx)
	return s, err
}

// count sums up the clicks of a link, row by row.
func (s *Store) count(ctx context.Context, tx bun.Tx, linkID string) (counted sums, err error) {
	rows, err := tx.NewSelect().Model((*Click)(nil)).Column("workspace_id", "clicked_at", "latency_ms").Where("link_id = ?", linkID).Rows(ctx)
	if err != nil {
		return counted, err
	}
	defer rows.Close()
	slots := map[time.Time]*bucket{}
	for rows.Next() {
		var c Click
		if err := s.DB.ScanRow(ctx, rows, &c); err != nil {
			return counted, err
		}
		start := c.ClickedAt.UTC().Truncate(BucketLength)
		if slots[start] == nil {
			slots[start] = &bucket{LinkID: linkID, StartsAt: start, WorkspaceID: c.WorkspaceID}
		}
		slots[start].Add(c.LatencyMs)
		counted.total.Add(c.LatencyMs)
		counted.total.WorkspaceID = c.WorkspaceID
	}
	for _, b := range slots {
		counted.buckets = append(counted.buckets, *b)
	}
	slices.SortFunc(counted.buckets, func(a, b bucket) int { return a.StartsAt.Compare(b.StartsAt) })
	return counted, rows.Err()
}

// equal says that both count the same; latencies may differ by how they were rounded.
func (s sums) equal(o sums) bool {
	return s.total.near(o.total.Tally) && slices.EqualFunc(s.buckets, o.buckets, func(a, b bucket) bool {
		return a.StartsAt.Equal(b.StartsAt) && a.near(b.Tally)
	})
}

func (t Tally) near(o Tally) bool {
	return t.Clicks == o.Clicks && math.Abs(t.LatencyMean-o.LatencyMean) <= 1e-6*(1+math.Abs(o.LatencyMean)) &&
		math.Abs(t.LatencyM2-o.LatencyM2) <= 1e-6*(1+math.Abs(o.LatencyM2))
}

// write replaces the sums of a link. Its workspace is the one that its total has, if it has one.
func (s sums) write(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error {
	if workspaceID == "" {
		workspaceID = s.total.WorkspaceID
	}
	s.total.LinkID, s.total.WorkspaceID = linkID, workspaceID
	if _, err := tx.NewDelete().Model((*bucket)(nil)).Where("link_id = ?", linkID).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewInsert().Model(&s.total).On("CONFLICT (link_id) DO UPDATE").
		Set("clicks = excluded.clicks").Set("latency_mean = excluded.latency_mean").Set("latency_m2 = excluded.latency_m2").
		Returning("NULL").Exec(ctx)
	for chunk := range slices.Chunk(s.buckets, linksAtOnce) {
		for i := range chunk {
			chunk[i].WorkspaceID = workspaceID
		}
		if err == nil {
			_, err = tx.NewInsert().Model(&chunk).Returning("NULL").Exec(ctx)
		}
	}
	return err
}
