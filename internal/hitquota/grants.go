package hitquota

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// granted is a table whose rows count grants. No user can change the column granted, and only this
// package does.
type granted struct{ table, id string }

// The tables: links with MaxClicks, and targets of rules that have a maximum of their own.
var (
	ofLinks   = granted{"links", "id"}
	ofTargets = granted{"target_grants", "target_id"}
)

// updateGranted prepares an update of granted; the caller adds further conditions. Nothing else in this
// package writes to links.
func updateGranted(tx bun.Tx, of granted, id, expression string, n int64) *bun.UpdateQuery {
	q := tx.NewUpdate().Set("granted = "+expression, n).Where("? = ?", bun.Ident(of.id), id)
	if of == ofTargets {
		return q.Table("target_grants")
	}
	return q.Table("links")
}

// recountBatch is how many links RecountGrants updates in one transaction.
const recountBatch = 500

// Grants are the redirects that links or targets with a maximum may still answer. They are a Source;
// the rows of links or targets hold the counts.
type Grants struct {
	*Store
	// LogID names this process's click log, and so its leases.
	LogID string

	of granted
}

// NewGrants returns the grants of links with MaxClicks.
func NewGrants(store *Store, logID string) Grants {
	return Grants{Store: store, LogID: logID, of: ofLinks}
}

// Take implements Source: one conditional statement for each link decides, so no more than
// MaxClicks are ever granted, however many nodes ask at once.
func (g Grants) Take(ctx context.Context, requests []*Request) error {
	for _, a := range requests {
		for _, hits := range []int64{a.Want, 1} {
			if err := g.take(ctx, a, hits); err != nil {
				return fmt.Errorf("granting redirects: %w", err)
			}
			if a.Granted > 0 {
				break
			}
		}
	}
	return nil
}

func (g Grants) take(ctx context.Context, a *Request, hits int64) error {
	return g.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		a.Granted = 0
		result, err := updateGranted(tx, g.of, a.LinkID, "granted + ?", hits).
			Where("granted + ? <= max_clicks OR max_clicks IS NULL", hits).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		var count int64
		var maximum *int64
		err = tx.NewSelect().Table(g.of.table).Column("granted", "max_clicks").
			Where("? = ?", bun.Ident(g.of.id), a.LinkID).Scan(ctx, &count, &maximum)
		if err != nil {
			return err
		}
		a.Granted = hits
		if maximum != nil {
			a.Left = *maximum - count
		}
		return insertLease(ctx, tx, g.LogID, Lease{Number: a.Number, LinkID: a.LinkID, Hits: hits})
	})
}

// Return implements Source.
func (g Grants) Return(ctx context.Context, leases []Lease) error {
	return g.Recover(ctx, g.LogID, leases)
}

// Recover ends the leases of a log, this process's or that of one that has died.
func (g Grants) Recover(ctx context.Context, logID string, leases []Lease) error {
	err := g.recoverLeases(ctx, logID, leases, func(ctx context.Context, tx bun.Tx, unused map[linkMonth]int64) error {
		for _, key := range slices.SortedFunc(maps.Keys(unused), func(a, b linkMonth) int {
			return cmp.Compare(a.linkID, b.linkID)
		}) {
			_, err := updateGranted(tx, g.of, key.linkID, "granted - ?", unused[key]).
				Where("granted >= ?", unused[key]).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("returning grants: %w", err)
	}
	return nil
}

// RecountGrants sets the granted clicks of links with MaxClicks to the clicks that they have. It is
// for a restored database, whose leases have all ended.
func (s *Store) RecountGrants(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for after := ""; ; {
		var ids []string
		err := s.DB.NewSelect().Table(ofLinks.table).Column("id").Where("max_clicks IS NOT NULL").
			Where("id > ?", after).Order("id").Limit(recountBatch).Scan(ctx, &ids)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		counts, err := s.Clicks.Counts(ctx, s.DB, ids...)
		if err != nil {
			return err
		}
		err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			for _, linkID := range ids {
				_, err := updateGranted(tx, ofLinks, linkID, "?", counts[linkID]).
					Where("granted <> ?", counts[linkID]).Exec(ctx)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("counting what links have granted: %w", err)
		}
	}
}

// Exhausted says that a link with MaxClicks has none left to grant.
func (s *Store) Exhausted(ctx context.Context, linkID string) (bool, error) {
	exhausted, err := s.DB.NewSelect().Table(ofLinks.table).Where("id = ?", linkID).Where("granted >= max_clicks").
		Exists(db.AsResolver(ctx))
	if err != nil {
		return false, fmt.Errorf("looking for what is left of a link: %w", err)
	}
	return exhausted, nil
}
