// Package stats answers what users ask about clicks: totals, series, breakdowns, latencies, lists
// and exports. It checks the question, and has a clickstore.Store count. Resolvers, pages and
// exports call it.
package stats

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Store answers questions about clicks.
type Store struct {
	Clicks clickstore.Store
	// Ledger has the totals of links.
	Ledger *clickstore.Ledger
	// DB has the folders of links, which the fences of API keys name.
	DB *db.DB
	// Now is the clock.
	Now func() time.Time
}

// enter enters the workspace of a subject. It returns Forbidden, or NotFound for a link outside of
// the fence of an API key. Who has chosen several links has applied the fence.
func (s *Store) enter(ctx context.Context, m workspace.Membership, of clickstore.Subject) (context.Context, error) {
	if of.Links != nil {
		return m.Enter(ctx, workspace.ReadStats)
	}
	return m.EnterLink(ctx, workspace.ReadStats, s.DB, of.LinkID)
}

// TargetClicks returns the clicks of links by the targets of their rules, without those of private
// visitors. It counts one link after the other.
func (s *Store) TargetClicks(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string]map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	tomorrow := s.Now().UTC().Truncate(click.Day).Add(click.Day)
	q := clickstore.Query{WorkspaceID: m.ID(), Range: clickstore.Range{From: clickstore.Never, To: tomorrow}}
	counts := map[string]map[string]int64{}
	for _, linkID := range linkIDs {
		q.LinkID = linkID
		found, err := s.Clicks.Slices(ctx, q, click.Target)
		if err != nil {
			return nil, err
		}
		counts[linkID] = map[string]int64{}
		for target, n := range found {
			counts[linkID][target] = n.Clicks
		}
	}
	return counts, nil
}
