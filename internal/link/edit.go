package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// maxRaces is how often a transaction runs again that has lost a race for an external id.
const maxRaces = 5

// edits are changes to links of a workspace, in one transaction.
type edits struct {
	ids    []string
	policy Policy
	// field is the argument with the ids.
	field string
	// mutate changes the link with the i-th id. It may be called again in a retry.
	mutate func(i int, l *Link) error
	reason reason
	// reasonOf replaces reason if that depends on the link; nil otherwise.
	reasonOf func(before *Link) reason
	// operationID is the bulk call that the edits are part of; empty for none.
	operationID string
	// needClicks loads the number of clicks into Granted, because mutate may set MaxClicks.
	needClicks bool
}

// edit locks the links, calls mutate for each id, and writes the links that have changed, in a
// handful of statements.
func (s *Store) edit(ctx context.Context, m workspace.Membership, e edits) (results []Result, err error) {
	if err := checkBatch(len(e.ids), e.field); err != nil {
		return nil, err
	}
	change := func(ctx context.Context, tx bun.Tx) (err error) {
		results, err = s.editIn(ctx, tx, m, e)
		return err
	}
	err = s.DB.Tx(ctx, change)
	for races := 0; db.IsUniqueViolation(err) && races < maxRaces; races++ { // another one took an external id
		err = s.DB.Tx(ctx, change)
	}
	if err != nil && !errors.Is(err, errFailed) {
		return nil, fmt.Errorf("changing links: %w", err)
	}
	for _, r := range results {
		if r.Link != nil {
			s.forget(r.Link)
		}
	}
	return results, nil
}

// editIn is edit within a transaction. It returns errFailed with the results of an AllOrNothing batch
// that has an error.
func (s *Store) editIn(ctx context.Context, tx bun.Tx, m workspace.Membership, e edits) ([]Result, error) {
	links, err := s.lock(ctx, tx, m, e.ids)
	if err != nil {
		return nil, err
	}
	if e.needClicks {
		if err := s.countClicks(ctx, tx, links); err != nil {
			return nil, err
		}
	}
	results, changed, err := s.mutateAll(ctx, tx, m, e, links)
	if err != nil {
		return nil, err
	}
	if e.policy == AllOrNothing && failAll(results) {
		return results, errFailed
	}
	rewrites := map[reason][]rewrite{}
	for linkID, after := range changed {
		why := e.reason
		if e.reasonOf != nil {
			why = e.reasonOf(links[linkID])
		}
		rewrites[why] = append(rewrites[why], rewrite{before: links[linkID], after: after, operation: e.operationID})
	}
	for why, some := range rewrites {
		if err := s.apply(ctx, tx, why, some); err != nil {
			return nil, err
		}
	}
	for i, r := range results {
		if r.Link == nil {
			continue
		}
		if after := changed[r.Link.ID]; after != nil { // the last of several changes of the link
			results[i].Link = after
			results[i].OperationID = e.operationOf(after)
		}
	}
	return results, nil
}

// operationOf returns the id of the operation if it has written the newest version of the link.
func (e *edits) operationOf(l *Link) string {
	if optional.Value(l.VersionOperation) != e.operationID {
		return ""
	}
	return e.operationID
}

// mutateAll changes the links in memory, and returns the results and the changed links by id. A
// change that gives a link a new destination, or makes it active again, fails if the destination is
// refused, and one that gives it an external id fails if another link has that: all other changes are then
// applied again without it.
func (s *Store) mutateAll(
	ctx context.Context, tx bun.Tx, m workspace.Membership, e edits, locked map[string]*Link,
) ([]Result, map[string]*Link, error) {
	failed, now := map[int]error{}, s.now()
	for {
		results, changed, links := make([]Result, len(e.ids)), map[string]*Link{}, maps.Clone(locked)
		unchecked, pending, takers := map[*Link]int{}, map[*Link]*ScheduledChange{}, map[string]int{}
		for i, linkID := range e.ids {
			before := links[linkID]
			results[i] = mutateCopy(before, func(l *Link) error {
				if failed[i] != nil {
					return failed[i]
				}
				if err := e.mutate(i, l); err != nil {
					return err
				}
				if l.OriginalURL == before.OriginalURL && l.Settings == before.Settings {
					return nil
				}
				_, err := s.validStates(l)
				return err
			})
			after := results[i].Link
			if after == nil {
				continue
			}
			if !after.UpdatedAt.Equal(before.UpdatedAt) {
				changed[linkID] = after
			}
			active := after.Status(now) == routing.Active && before.Status(now) != routing.Active
			if active || after.OriginalURL != before.OriginalURL || after.Routing != before.Routing {
				unchecked[after] = i
				for _, c := range after.states() {
					unchecked[c.after], pending[c.after] = i, c
				}
			}
			if !sameExternalID(after.ExternalID, before.ExternalID) {
				takers[linkID] = i
			}
			links[linkID] = after
		}
		taken, err := s.takenExternalIDs(ctx, tx, m, takers, links)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range taken {
			failed[i] = errExternalIDTaken()
		}
		if len(taken) > 0 {
			continue
		}
		refused, err := s.refused(ctx, tx, slices.Collect(maps.Keys(unchecked)))
		if err != nil || len(refused) == 0 {
			return results, changed, err
		}
		for l, e := range refused {
			i := unchecked[l]
			if c := pending[l]; c != nil {
				failed[i] = c.errBroken(e)
				continue
			}
			if failed[i] = e; len(e.Field) == 0 && l.OriginalURL != locked[l.ID].OriginalURL {
				failed[i] = e.At("url")
			}
		}
	}
}

// mutateCopy changes a copy of the link, so that a failed mutation has no effect.
func mutateCopy(l *Link, mutate func(*Link) error) Result {
	if l == nil || l.PurgedAt != nil {
		return Result{Err: errNotFound()}
	}
	after := *l
	if err := mutate(&after); err != nil {
		return Result{Err: err}
	}
	return Result{Link: &after}
}

// countClicks sets Granted to the number of clicks in links without MaxClicks, where it is not
// counted.
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

// single returns the result of a batch of one.
func single(results []Result, err error) (*Link, error) {
	if err != nil {
		return nil, err
	}
	return results[0].Link, results[0].Err
}

// lock locks links of the workspace and returns them by their ids. Unknown ids are omitted. It writes
// scheduled changes that are due, so that the caller changes the present state.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, ids []string) (map[string]*Link, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(linkID string) bool { return !id.Valid(id.Link, linkID) })
	var links []*Link
	// All transactions lock links in the order of their ids, to avoid deadlocks.
	q := tx.NewSelect().Model(&links).Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).Order("id")
	if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
		return nil, fmt.Errorf("locking links: %w", err)
	}
	if err := s.WriteDue(ctx, tx, links...); err != nil {
		return nil, err
	}
	return mapByID(m, links), nil
}
