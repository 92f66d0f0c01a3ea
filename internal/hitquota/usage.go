package hitquota

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// Usage counts monthly hits in the database. It is the Source while Redis is unavailable. It counts
// every ingested click, and the hits that were granted since Redis became unavailable.
type Usage struct {
	*Store
	// Log is this process's click log, which the leases belong to.
	Log ClickLog
}

// hitUsage is the known usage of a link in a month.
type hitUsage struct {
	bun.BaseModel `bun:"table:hit_usage"`

	LinkID    string `bun:",pk"`
	Month     string `bun:",pk"`
	Hits      int64
	ChangedAt time.Time
}

// Seeds returns the known hits of a month for Hits: the clicks in the database and, if waiting is
// true, those in this process's log; or the hits that were granted without Redis, if that is more.
func (u *Usage) Seeds(ctx context.Context, m Month, linkIDs []string, waiting bool) (map[string]int64, error) {
	ctx = db.AsSystem(ctx)
	known, err := u.knownOf(ctx, m, linkIDs)
	for again := waiting; again && err == nil; {
		if again, err = u.Log.AddWaiting(known.clicks, m, known.position); again && err == nil {
			known, err = u.knownOf(ctx, m, linkIDs) // the database has some of them by now
		}
	}
	if err != nil {
		return nil, err
	}
	for linkID, hits := range known.granted {
		known.clicks[linkID] = max(known.clicks[linkID], hits)
	}
	return known.clicks, nil
}

// known is the usage of links in a month at one instant.
type known struct {
	clicks, granted map[string]int64
	// position is up to where it has this process's log.
	position int64
}

// knownOf reads it in one statement, because the first redirect of a link in a month waits for it.
func (u *Usage) knownOf(ctx context.Context, m Month, linkIDs []string) (known, error) {
	const clicks, position, granted = 0, 1, 2
	var rows []struct {
		SubjectID    string
		Clicks, Kind int64
	}
	log := u.DB.NewSelect().Table("click_logs").Column("id", "position").ColumnExpr("?", position).
		Where("id = ?", u.Log.LogID())
	usage := u.DB.NewSelect().Model((*hitUsage)(nil)).Column("link_id", "hits").ColumnExpr("?", granted).
		Where("month = ?", m.String()).Where("link_id IN (?)", bun.In(linkIDs))
	err := u.Clicks.ByLink(linkIDs, m.Start).ColumnExpr("? AS kind", clicks).UnionAll(log).UnionAll(usage).
		Scan(ctx, &rows)
	if err != nil {
		return known{}, fmt.Errorf("counting the clicks of a month: %w", err)
	}
	k := known{clicks: make(map[string]int64, len(linkIDs)), granted: map[string]int64{}}
	for _, linkID := range linkIDs {
		k.clicks[linkID] = 0
	}
	for _, row := range rows {
		switch row.Kind {
		case clicks:
			k.clicks[row.SubjectID] = row.Clicks
		case position:
			k.position = row.Clicks
		case granted:
			k.granted[row.SubjectID] = row.Clicks
		}
	}
	return k, nil
}

// Take implements Source: one conditional statement for each link decides, so that no more are
// granted than the limit, however many nodes ask at once.
func (u *Usage) Take(ctx context.Context, requests []*Request) error {
	for _, a := range requests {
		seeds, err := u.Seeds(ctx, a.Month, []string{a.LinkID}, a.Known)
		if err != nil {
			return err
		}
		if err := u.take(ctx, a, seeds[a.LinkID]); err != nil {
			return fmt.Errorf("taking hits from the database: %w", err)
		}
	}
	return nil
}

// take tries to take all requested hits, and then a single one.
func (u *Usage) take(ctx context.Context, a *Request, seed int64) error {
	for _, hits := range []int64{a.Want, 1} {
		err := u.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			a.Granted = 0
			if seed+hits > a.Limit {
				return nil
			}
			row := &hitUsage{
				LinkID:    a.LinkID,
				Month:     a.Month.String(),
				Hits:      seed + hits,
				ChangedAt: db.Instant(u.Now()),
			}
			known := u.DB.Greatest("hit_usage.hits", seed)
			result, err := tx.NewInsert().Model(row).On("CONFLICT (link_id, month) DO UPDATE").
				Set("hits = ? + ?", known, hits).Set("changed_at = excluded.changed_at").
				Where("? + ? <= ?", known, hits, a.Limit).Returning("NULL").Exec(ctx)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n == 0 {
				return err
			}
			a.Granted, a.Left = hits, a.Limit-seed-hits
			return insertLease(ctx, tx, u.Log.LogID(),
				Lease{Number: a.Number, LinkID: a.LinkID, Month: a.Month, Hits: hits})
		})
		if err != nil || a.Granted > 0 {
			return err
		}
	}
	return nil
}

// Return implements Source. The statement that deletes the lease's row also returns its unused
// hits.
func (u *Usage) Return(ctx context.Context, leases []Lease) error {
	return u.Recover(ctx, u.Log.LogID(), leases)
}

// Recover ends the leases of a log, this process's or that of one that has died.
func (u *Usage) Recover(ctx context.Context, logID string, leases []Lease) error {
	err := u.recoverLeases(ctx, logID, leases, func(ctx context.Context, tx bun.Tx, l Lease, unused int64) error {
		_, err := tx.NewUpdate().Model((*hitUsage)(nil)).Set("hits = hits - ?", unused).
			Where("link_id = ?", l.LinkID).Where("month = ?", l.Month.String()).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("giving hits back to the database: %w", err)
	}
	return nil
}

// Resume implements Source: the database needs no preparation.
func (u *Usage) Resume(context.Context) error { return nil }

// Granted calls f with the hits that were granted without Redis since a time.
func (u *Usage) Granted(ctx context.Context, since time.Time, f func(linkID string, m Month, hits int64) error) error {
	var rows []hitUsage
	if err := u.DB.NewSelect().Model(&rows).Where("changed_at >= ?", since).Scan(db.AsResolver(ctx)); err != nil {
		return fmt.Errorf("looking for granted hits: %w", err)
	}
	for _, row := range rows {
		m, err := ParseMonth(row.Month)
		if err != nil {
			return err
		}
		if err := f(row.LinkID, m, row.Hits); err != nil {
			return err
		}
	}
	return nil
}
