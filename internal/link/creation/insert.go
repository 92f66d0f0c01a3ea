package creation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// create reads the facts of the results, and writes missing links, in one transaction. The
// database's unique indexes decide which of concurrent transactions creates a link; the others find
// the existing link, or try their next code if another URL has it.
func (b *batch) create(ctx context.Context, tx bun.Tx) error {
	for _, step := range []func(context.Context, bun.Tx) error{
		b.read, b.consumeQuotas, b.insert, b.revive, b.changeFound, b.recordCreated, b.returnQuotas, b.saveResults,
	} {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// read starts an attempt with one read of the database: which callers still have the permission
// after the wait, which destinations are refused, and which links exist.
func (b *batch) read(ctx context.Context, tx bun.Tx) error {
	members, drafts, folderIDs := make([]workspace.Membership, len(b.calls)), []*link.Link{}, []string{}
	var items []*item
	for i, c := range b.calls {
		members[i], items = c.member, append(items, c.items...)
	}
	b.quotas = nil
	for _, it := range items {
		if folderID := it.want.in.Fields.FolderID.To; folderID != nil {
			folderIDs = append(folderIDs, *folderID)
		}
	}
	items = slices.DeleteFunc(items, func(it *item) bool { return it.final.Err != nil || it.isKnown() })
	for _, it := range items {
		drafts = append(drafts, it.want.draft)
	}
	recheck, refusedMembers := workspace.Recheck(b.store.DB, tx, workspace.CreateLinks, members)
	lookups, unsafe := b.store.Destinations.Lookups(tx, link.DestinationsOf(drafts)...)
	folders, workspacesOf := folder.Lookup(b.store.DB, tx, folderIDs...)
	found := b.lookUps(tx, items)
	lookups = slices.Concat([]db.Lookup{recheck, folders}, lookups, found.lookups)
	if err := b.store.DB.Pipe(ctx, tx, lookups...); err != nil {
		return fmt.Errorf("reading what a creation depends on: %w", err)
	}
	refused := refusedMembers()
	if err := b.refresh(ctx, tx, refused); err != nil {
		return err
	}
	b.begin(refused, link.Refusals(drafts, unsafe()), workspacesOf())
	return b.matchAndDecide(ctx, tx, found)
}

// refresh gives the calls of workspaces that have changed their present state, as it has the
// defaults and the quota. Then it returns ErrRetry.
func (b *batch) refresh(ctx context.Context, tx bun.Tx, refused []error) (err error) {
	isStale := false
	for i, c := range b.calls {
		if !errors.Is(refused[i], workspace.ErrStale) {
			continue
		}
		c.member, err = workspace.Refresh(ctx, b.store.DB, tx, c.member)
		if errs.Is(err, errs.NotFound) {
			refused[i] = err
			continue
		} else if err != nil {
			return err
		}
		for _, it := range c.items {
			it.restart()
		}
		isStale = true
	}
	if isStale {
		return ErrRetry
	}
	return nil
}

// begin starts an attempt with the items of the callers who have the permission, and notes which
// drafts have a destination that is not allowed, or a folder that their workspace does not have.
// The error of the other callers is NotFound or Forbidden.
func (b *batch) begin(refused []error, unsafe map[*link.Link]*errs.Error, folders map[string]string) {
	b.items = nil
	first := map[request]*item{}
	for i, c := range b.calls {
		if c.err, c.hasLeft = refused[i], false; c.err != nil {
			continue
		}
		for _, it := range c.items {
			b.items = append(b.items, it)
			it.try = try{}
			if folderID := it.want.in.Fields.FolderID.To; folderID != nil {
				it.try.facts.lacksFolder = folders[*folderID] != c.member.ID()
			}
			b.start(it, first, unsafe[it.want.draft])
		}
	}
}

// start starts the attempt of an item. Of equal items whose destination is allowed, only the first
// one has an attempt.
func (b *batch) start(it *item, first map[request]*item, unsafe *errs.Error) {
	switch {
	case !it.isOpen():
		return
	case it.isKnown():
		it.try.facts.ofID = it.holder
		it.decide()
		return
	}
	if it.try.facts.refused = unsafe; unsafe != nil && len(unsafe.Field) == 0 {
		it.try.facts.refused = unsafe.At("url")
	}
	if it.identity != (identity{}) && unsafe == nil && !it.try.facts.lacksFolder {
		same := request{it.identity, optional.Value(it.want.draft.ExternalID)}
		if it.try.duplicateOf = first[same]; it.try.duplicateOf != nil {
			it.sharePassword()
			return
		}
		first[same] = it
	}
	b.assignCode(it)
}

// insert inserts the unresolved links as far as the quotas suffice.
func (b *batch) insert(ctx context.Context, tx bun.Tx) error {
	if b.isAllOrNothing() {
		if len(b.affordable(b.unresolved())) < len(b.unresolved()) { // others may have created them before the lock
			if err := b.findUnresolved(ctx, tx); err != nil {
				return err
			}
		}
		if unresolved := b.unresolved(); len(b.affordable(unresolved)) < len(unresolved) {
			b.refuseForQuota(unresolved)
		}
		if b.failed() { // inserts nothing, instead of rolling it back
			return link.ErrFailed
		}
	}
	for unresolved := b.unresolved(); len(unresolved) > 0; unresolved = b.unresolved() {
		candidates := distinct(b.affordable(unresolved))
		if err := b.insertDrafts(ctx, tx, candidates); err != nil {
			return err
		}
		b.learn(candidates)
		if err := b.findUnresolved(ctx, tx); err != nil {
			return err
		}
		if err := b.tryNextCodes(ctx, candidates); err != nil {
			return err
		}
	}
	return nil
}

// confirmCodes returns ErrRetry if a workspace of custom links without code keys, which were
// inserted or locked, wants these. It waits for no lock: the locked rows prevent other transactions
// from changing that.
func (b *batch) confirmCodes(ctx context.Context, tx bun.Tx, links []*link.Link) error {
	assumed := map[string]bool{}
	for _, l := range links {
		if l.LacksCodeKey() {
			assumed[l.WorkspaceID] = true
		}
	}
	relies := func(c *call) bool { return c.member.Workspace().CaseSensitiveCodes && assumed[c.member.ID()] }
	if !slices.ContainsFunc(b.calls, relies) {
		return nil
	}
	var stale []string
	err := tx.NewSelect().Table("workspaces").Column("id").
		Where("id IN (?)", bun.In(slices.Sorted(maps.Keys(assumed)))).
		Where("NOT case_sensitive_codes").Scan(ctx, &stale)
	if err != nil {
		return fmt.Errorf("confirming how codes are compared: %w", err)
	}
	refused := make([]error, len(b.calls))
	for i, c := range b.calls {
		if relies(c) && slices.Contains(stale, c.member.ID()) {
			refused[i] = workspace.ErrStale
		}
	}
	return b.refresh(ctx, tx, refused)
}

// learn notes which candidates were not inserted, and which items the quota does not permit now.
func (b *batch) learn(candidates []*item) {
	for _, it := range candidates {
		if it.isUndecided() {
			it.try.tried++
			_, hasNext := b.nextCode(it)
			it.try.facts.isTaken, it.try.facts.hasNextCode = true, hasNext || it.want.draft.Strategy == link.Counter
		}
	}
	for _, it := range b.unresolved() {
		if b.quotaOf(it).left <= 0 {
			it.try.facts.overQuota = b.quotaOf(it).exceeded
		}
	}
}

// tryNextCodes assigns the next code to the candidates that found their code taken. It returns
// ErrRetry if one must be generated.
func (b *batch) tryNextCodes(ctx context.Context, candidates []*item) error {
	for _, it := range candidates {
		isExhausted := errs.Is(it.try.result.Err, errs.CodeExhausted)
		if it.try.decision.act != triesNext && !isExhausted {
			continue
		}
		b.store.Log.WarnContext(ctx, "code collision", "workspace", it.call.member.ID(),
			"code", it.want.draft.ShownCode(), "strategy", it.want.draft.Strategy, "count", b.store.collisions.Add(1))
		if isExhausted {
			continue
		}
		if !b.assignCode(it) {
			it.codes = nil
			return ErrRetry
		}
		it.try.facts.isTaken = false
		it.decide()
	}
	return nil
}

// insertDrafts inserts the drafts that no unique index refuses. It returns ErrRetry if they lack
// code keys.
func (b *batch) insertDrafts(ctx context.Context, tx bun.Tx, items []*item) error {
	links, byID := make([]*link.Link, 0, len(items)), make(map[string]*item, len(items))
	for _, it := range items {
		links, byID[it.want.draft.ID] = append(links, it.want.draft), it
	}
	ids, err := link.Insert(ctx, tx, links)
	for _, linkID := range ids {
		it := byID[linkID]
		it.try.result = link.Result{Link: it.want.draft, Created: true, OperationID: it.call.operationID}
		b.quotaOf(it).created++
		b.quotaOf(it).left--
	}
	if err != nil {
		return err
	}
	return b.confirmCodes(ctx, tx, links)
}

// recordCreated writes what belongs to links that were created.
func (b *batch) recordCreated(ctx context.Context, tx bun.Tx) error {
	var created []*link.Link
	for _, it := range b.items {
		if it.try.result.Created {
			created = append(created, it.want.draft)
		}
	}
	return b.store.RecordNew(ctx, tx, created)
}
