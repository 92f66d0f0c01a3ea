package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
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

// pass is one attempt to change the links of a batch in memory.
type pass struct {
	results []Result
	// links are those of the batch by their ids, with the changes so far; changed are those that differ.
	links, changed map[string]*Link
	// unchecked are the states with URLs that may be refused.
	unchecked map[*Link]uncheckedState
	// claims are the changes of external ids, in the order of the edits.
	claims []*claim
}

// uncheckedState is a state that an edit leads to: after a pending change, or at once if that is nil.
type uncheckedState struct {
	edit    int
	pending *ScheduledChange
}

// mutateAll changes the links in memory, and returns the results and the changed links by id. A
// change that gives a link a new destination, or makes it active again, fails if the destination is
// refused, and one that gives it an external id fails if another link has that: all other changes are then
// applied again without it.
func (s *Store) mutateAll(
	ctx context.Context, tx bun.Tx, m workspace.Membership, e edits, locked map[string]*Link,
) ([]Result, map[string]*Link, error) {
	failed := map[int]error{}
	for {
		p, err := s.mutateOnce(ctx, &e, locked, failed)
		if err != nil {
			return nil, nil, err
		}
		taken, err := s.takenExternalIDs(ctx, tx, m, p.claims, locked)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range taken {
			failed[i] = errExternalIDTaken()
		}
		if len(taken) > 0 {
			continue
		}
		refused, err := s.refused(ctx, tx, slices.Collect(maps.Keys(p.unchecked)))
		if err != nil || len(refused) == 0 {
			return p.results, p.changed, err
		}
		for l, err := range refused {
			failed[p.unchecked[l].edit] = p.errRefused(l, locked[l.ID], err)
		}
	}
}

// mutateOnce applies all edits except those that have failed.
func (s *Store) mutateOnce(
	ctx context.Context, e *edits, locked map[string]*Link, failed map[int]error,
) (*pass, error) {
	p := &pass{
		results: make([]Result, len(e.ids)), links: maps.Clone(locked), changed: map[string]*Link{},
		unchecked: map[*Link]uncheckedState{},
	}
	for i, linkID := range e.ids {
		if err := ctx.Err(); err != nil { // the tests of routings take long
			return nil, err
		}
		before := p.links[linkID]
		p.results[i] = mutateCopy(before, func(l *Link) error {
			if failed[i] != nil {
				return failed[i]
			}
			if err := e.mutate(i, l); err != nil {
				return err
			}
			return s.revalidate(ctx, before, l)
		})
		if after := p.results[i].Link; after != nil {
			p.add(i, before, after, s.now())
		}
	}
	return p, nil
}

// add adds a successful edit.
func (p *pass) add(i int, before, after *Link, now time.Time) {
	p.links[after.ID] = after
	if !after.UpdatedAt.Equal(before.UpdatedAt) {
		p.changed[after.ID] = after
	}
	active := after.Status(now) == routing.Active && before.Status(now) != routing.Active
	if active || after.OriginalURL != before.OriginalURL || after.Routing != before.Routing {
		p.unchecked[after] = uncheckedState{edit: i}
		for _, c := range after.states() {
			p.unchecked[c.after] = uncheckedState{i, c}
		}
	}
	if !optional.Equal(after.ExternalID, before.ExternalID) {
		p.claims = append(p.claims, &claim{linkID: after.ID, edit: i, externalID: after.ExternalID})
	}
}

// errRefused is the error of the edit that leads to a state with a refused URL.
func (p *pass) errRefused(l, locked *Link, e *errs.Error) error {
	switch c := p.unchecked[l].pending; {
	case c != nil:
		return c.errBroken(e)
	case len(e.Field) == 0 && l.OriginalURL != locked.OriginalURL:
		return e.At("url")
	}
	return e
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
	ids = validIDs(ids)
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
