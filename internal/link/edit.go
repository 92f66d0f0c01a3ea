package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// edits are changes to links of a workspace, in one transaction.
type edits struct {
	ids    []string
	policy Policy
	// field is the argument that the ids come from.
	field string
	// change makes a link what it is to become. It may run again, with the link as it is then.
	change func(i int, l *Link) error
	// action is what a change is called in the audit log.
	action audit.Action
	// limits says that change may limit how often a link is followed: what it has answered so far is
	// to be known.
	limits bool
}

// edit locks the links, lets change make each what it is to become, and writes those that have
// become something else, in a handful of statements. A link that is named twice is changed twice.
func (s *Store) edit(ctx context.Context, m workspace.Membership, e edits) (results []Result, err error) {
	if err := checkBatch(len(e.ids), e.field); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		links, err := s.lock(ctx, tx, m, e.ids)
		if err != nil {
			return err
		}
		if e.limits {
			if err := s.countClicks(ctx, tx, links); err != nil {
				return err
			}
		}
		var changed map[string]*Link
		if results, changed, err = s.compute(ctx, tx, e, links); err != nil {
			return err
		}
		if e.policy == AllOrNothing && failAll(results) {
			return errFailed
		}
		changes := make([]change, 0, len(changed))
		for linkID, after := range changed {
			changes = append(changes, change{before: links[linkID], after: after})
		}
		return s.apply(ctx, tx, e.action, changes)
	})
	if err != nil && !errors.Is(err, errFailed) {
		return nil, fmt.Errorf("changing links: %w", err)
	}
	s.forgetResults(results)
	return results, nil
}

// forgetResults discards what is cached of links that may have changed, or that are new.
func (s *Store) forgetResults(results []Result) {
	for _, r := range results {
		if r.Link != nil {
			s.forget(r.Link)
		}
	}
}

// compute changes the links in memory. A change that gives a link a new destination, or makes it
// active again, fails if the destination is refused: all other changes are then applied again
// without it.
func (s *Store) compute(
	ctx context.Context, tx bun.Tx, e edits, locked map[string]*Link,
) ([]Result, map[string]*Link, error) {
	failed, now := map[int]error{}, s.now()
	for {
		results, changed, links := make([]Result, len(e.ids)), map[string]*Link{}, maps.Clone(locked)
		suspects := map[*Link]int{}
		for i, linkID := range e.ids {
			before := links[linkID]
			results[i] = editOne(before, func(l *Link) error {
				if failed[i] != nil {
					return failed[i]
				}
				return e.change(i, l)
			})
			after := results[i].Link
			if after == nil {
				continue
			}
			if !after.UpdatedAt.Equal(before.UpdatedAt) {
				changed[linkID] = after
			}
			if after.OriginalURL != before.OriginalURL || after.Status(now) == routing.Active &&
				before.Status(now) != routing.Active {
				suspects[after] = i
			}
			links[linkID] = after
		}
		refused, err := s.refused(ctx, tx, slices.Collect(maps.Keys(suspects)))
		if err != nil || len(refused) == 0 {
			return results, changed, err
		}
		for l, e := range refused {
			if i := suspects[l]; l.OriginalURL != locked[l.ID].OriginalURL {
				failed[i] = e.At("url")
			} else {
				failed[i] = e
			}
		}
	}
}

// editOne changes a copy of the link, so that what is refused in the middle leaves nothing behind.
func editOne(l *Link, change func(*Link) error) Result {
	if l == nil || l.PurgedAt != nil {
		return Result{Err: errNotFound()}
	}
	after := *l
	if err := change(&after); err != nil {
		return Result{Err: err}
	}
	return Result{Link: &after}
}

// countClicks finds out how many redirects links have answered that may answer any number.
func (s *Store) countClicks(ctx context.Context, tx bun.Tx, links map[string]*Link) error {
	var ids []string
	for linkID, l := range links {
		if l.MaxClicks == nil {
			ids = append(ids, linkID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	counts, err := s.Clicks.Counts(ctx, tx, ids...)
	for _, linkID := range ids {
		links[linkID].Granted = counts[linkID]
	}
	return err
}

// only is the result of a batch of one.
func only(results []Result, err error) (*Link, error) {
	if err != nil {
		return nil, err
	}
	return results[0].Link, results[0].Err
}

// lock loads links of the workspace and keeps everybody else from changing them. Those that do not
// exist are missing from the answer.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, ids []string) (map[string]*Link, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(linkID string) bool { return !id.Valid(id.Link, linkID) })
	var links []*Link
	// In the order of ids, as everybody locks them: no two then wait for each other.
	q := tx.NewSelect().Model(&links).Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).Order("id")
	if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
		return nil, fmt.Errorf("locking links: %w", err)
	}
	return mapByID(m, links), nil
}
