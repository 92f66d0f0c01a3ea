package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// ErrFailed rolls back an AllOrNothing batch.
var ErrFailed = errors.New("a link of the batch has an error")

// MaxRaces is how often a transaction runs again that has lost a race for an external id.
const MaxRaces = 5

// Edits are changes to links of a workspace, in one transaction.
type Edits struct {
	IDs    []string
	Policy Policy
	// Mutate changes the link with the i-th id. It may be called again in a retry.
	Mutate func(i int, l *Link) error
	Reason Reason
	// ReasonOf replaces Reason if that depends on the link; nil otherwise.
	ReasonOf func(before *Link) Reason
	// OperationID is the bulk call that the edits are part of; empty for none.
	OperationID string
	// NeedClicks loads the number of clicks into Granted, because mutate may set MaxClicks.
	NeedClicks bool
	// NeedTags loads the tags once the links are locked, because mutate changes some
	// of them.
	NeedTags bool
}

// EditIn locks the links, calls Mutate for each id, and writes the links that have changed, in a
// handful of statements. The caller forgets them once the transaction has ended. It returns
// ErrFailed with the results of an AllOrNothing batch that has an error.
func (s *Store) EditIn(ctx context.Context, tx bun.Tx, m workspace.Membership, e Edits) ([]Result, error) {
	links, err := s.Lock(ctx, tx, m, e.IDs)
	if err != nil {
		return nil, err
	}
	if e.NeedClicks {
		if err := s.CountClicks(ctx, tx, links); err != nil {
			return nil, err
		}
	}
	if e.NeedTags {
		if err := LoadTags(ctx, tx, slices.Collect(maps.Values(links))...); err != nil {
			return nil, err
		}
	}
	results, changed, err := s.mutateAll(ctx, tx, m, e, links)
	if err != nil {
		return nil, err
	}
	if e.Policy == AllOrNothing && FailAll(results) {
		return results, ErrFailed
	}
	rewrites := map[Reason][]Rewrite{}
	for linkID, after := range changed {
		why := e.reasonOf(links[linkID])
		rewrites[why] = append(rewrites[why], Rewrite{Before: links[linkID], After: after, Operation: e.OperationID})
	}
	for why, some := range rewrites {
		if err := s.Apply(ctx, tx, why, some); err != nil {
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

// reasonOf returns the reason for changing a link.
func (e *Edits) reasonOf(before *Link) Reason {
	if e.ReasonOf != nil {
		return e.ReasonOf(before)
	}
	return e.Reason
}

// operationOf returns the id of the operation if it has written the newest version of the link.
func (e *Edits) operationOf(l *Link) string {
	if optional.Value(l.VersionOperation) != e.OperationID {
		return ""
	}
	return e.OperationID
}

// pass is one attempt to change the links of a batch in memory.
type pass struct {
	results []Result
	// links have the changes so far, by id; changed are those of them that differ from their rows.
	links, changed map[string]*Link
	// unchecked are the states with URLs that may be refused.
	unchecked map[*Link]uncheckedState
	// idEdits are the changes of external ids, in the order of the edits.
	idEdits []*idEdit
	// codeKeys are the edits that give a link its code key, by the keys.
	codeKeys map[string][]int
	// folders are the edits that put a link into another folder, by its id.
	folders map[string][]int
}

// uncheckedState is a state that an edit leads to: after a pending change, or at once if that is
// nil.
type uncheckedState struct {
	edit    int
	pending *ScheduledChange
}

// mutateAll changes the links in memory, and returns the results and the changed links by id. A
// change that gives a link a new destination, or makes one effective again, fails if the
// destination is refused, one that gives it an external id or a code key fails if another link has
// that, and one that puts it into a folder fails if that does not exist: all other changes are then
// applied again without it.
func (s *Store) mutateAll(
	ctx context.Context, tx bun.Tx, m workspace.Membership, e Edits, locked map[string]*Link,
) ([]Result, map[string]*Link, error) {
	failed := map[int]error{}
	for {
		before := len(failed)
		p, err := s.mutateOnce(ctx, &e, locked, failed)
		if err != nil {
			return nil, nil, err
		}
		if err := s.checkPass(ctx, tx, m, p, locked, failed); err != nil {
			return nil, nil, err
		}
		if len(failed) == before {
			return p.results, p.changed, InternalError(p.results)
		}
	}
}

// checkPass adds the edits of a pass to failed that the first failing check refuses: without them,
// others may pass the checks after it.
func (s *Store) checkPass(
	ctx context.Context, tx bun.Tx, m workspace.Membership, p *pass, locked map[string]*Link, failed map[int]error,
) error {
	refused, err := s.refused(ctx, tx, slices.Collect(maps.Keys(p.unchecked)))
	for l, err := range refused {
		failed[p.unchecked[l].edit] = p.errRefused(l, locked[l.ID], err)
	}
	if err != nil || len(refused) > 0 {
		return err
	}
	for _, one := range []struct {
		find func() ([]int, error)
		err  error
	}{
		{func() ([]int, error) { return s.missingFolders(ctx, tx, m, p.folders) }, folder.ErrUnknown()},
		{func() ([]int, error) { return p.takenCodeKeys(ctx, tx, m) },
			errs.New(errs.CodeTaken, "Another link has this code in upper or lower case.").At("id")},
		{func() ([]int, error) { return s.takenExternalIDs(ctx, tx, m, p.idEdits, locked) }, ErrExternalIDTaken()},
	} {
		edits, err := one.find()
		for _, i := range edits {
			failed[i] = one.err
		}
		if err != nil || len(edits) > 0 {
			return err
		}
	}
	return nil
}

// mutateOnce applies all edits that have not failed.
func (s *Store) mutateOnce(
	ctx context.Context, e *Edits, locked map[string]*Link, failed map[int]error,
) (*pass, error) {
	p := &pass{
		results: make([]Result, len(e.IDs)), links: maps.Clone(locked), changed: map[string]*Link{},
		unchecked: map[*Link]uncheckedState{}, codeKeys: map[string][]int{}, folders: map[string][]int{},
	}
	for i, linkID := range e.IDs {
		if err := ctx.Err(); err != nil { // the tests of routings take long
			return nil, err
		}
		before := p.links[linkID]
		p.results[i] = mutateCopy(before, func(l *Link) error {
			if failed[i] != nil {
				return failed[i]
			}
			if err := e.Mutate(i, l); err != nil {
				return err
			}
			if err := l.In.CheckFolder(l.FolderID); err != nil {
				return err
			}
			return s.revalidate(ctx, before, l)
		})
		if after := p.results[i].Link; after != nil {
			p.add(i, before, after, s.now())
			if e.reasonOf(locked[linkID]).Cause != CauseReverted {
				p.addFolder(i, before, after)
			}
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
	if becomesEffective(before, after, now) || after.OriginalURL != before.OriginalURL ||
		after.Routing != before.Routing {
		p.unchecked[after] = uncheckedState{edit: i}
		for _, c := range after.states() {
			p.unchecked[c.after] = uncheckedState{i, c}
		}
	}
	if !optional.Equal(after.ExternalID, before.ExternalID) {
		p.idEdits = append(p.idEdits, &idEdit{linkID: after.ID, edit: i, externalID: after.ExternalID})
	}
	if before.CodeKey == nil && after.CodeKey != nil {
		p.codeKeys[*after.CodeKey] = append(p.codeKeys[*after.CodeKey], i)
	}
}

// becomesEffective reports whether URLs of a link that were effective neither now nor later become
// so. A deleted link has none at all; an expired or exhausted one has its ended URL.
func becomesEffective(before, after *Link, now time.Time) bool {
	was, is := before.Status(now), after.Status(now)
	switch {
	case before.DeletedAt != nil && after.DeletedAt == nil:
		return true
	case is == routing.Active:
		return was != routing.Active
	}
	return is == routing.Scheduled && was != routing.Active && was != routing.Scheduled
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
		return Result{Err: ErrNotFound()}
	}
	after := *l
	if err := mutate(&after); err != nil {
		return Result{Err: err}
	}
	return Result{Link: &after}
}

// maxClicksWait bounds AwaitClicks.
const maxClicksWait = time.Second

// AwaitClicks waits until the database has the clicks that this node has recorded, because a new
// MaxClicks counts them. It continues without those of a longer backlog, because links need no
// store of clicks: hitquota.Grants counts them later.
func (s *Store) AwaitClicks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxClicksWait)
	defer cancel()
	if err := s.Clicks.Flush(ctx); err != nil {
		s.Log.WarnContext(ctx, "clicks are not counted yet towards new limits of links", "error", err)
	}
}

// CountClicks sets Granted to the number of clicks in links without MaxClicks, where it is not
// counted.
func (s *Store) CountClicks(ctx context.Context, tx bun.Tx, links map[string]*Link) error {
	var ids []string
	for linkID, l := range links {
		if l.MaxClicks == nil {
			ids = append(ids, linkID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	counts, err := clickstore.LinkCounts(ctx, tx, ids...)
	for _, linkID := range ids {
		links[linkID].Granted = counts[linkID]
	}
	return err
}

// Lock locks links of the workspace and returns, by ID, those visible to the membership. Unknown
// ids are omitted. It writes scheduled changes that are due, so that the caller changes the present
// state.
func (s *Store) Lock(ctx context.Context, tx bun.Tx, m workspace.Membership, ids []string) (map[string]*Link, error) {
	ids = ValidIDs(ids)
	var links []*Link
	// All transactions lock links in the order of their ids, to avoid deadlocks.
	q := tx.NewSelect().Model(&links).Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).Order("id")
	if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
		return nil, fmt.Errorf("locking links: %w", err)
	}
	mayAssignKey := func(l *Link) bool { return l.LacksCodeKey() && l.DeletedAt != nil }
	if m.Workspace().CaseSensitiveCodes && slices.ContainsFunc(links, mayAssignKey) {
		var err error
		if m, err = workspace.Refresh(ctx, s.DB, tx, m); err != nil { // FoldCodes had locked them
			return nil, err
		}
	}
	if err := s.WriteDue(ctx, tx, links...); err != nil {
		return nil, err
	}
	return mapByID(m, links), nil
}
