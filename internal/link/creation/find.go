package creation

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// foundLinks are the links that items may find, after lookups.
type foundLinks struct {
	byHash, byCode, byCodeKey, byExternalID []*link.Link
	lookups                                 []db.Lookup
}

// lookUps returns the lookups of what items may find: the deterministic link for the URL, the one
// with the custom code in any case, and the one with the external id.
func (b *batch) lookUps(tx bun.Tx, items []*item) *foundLinks {
	hashes, codes, codeKeys, externalIDs := wanted[[]byte]{}, wanted[string]{}, wanted[string]{}, wanted[string]{}
	for _, it := range items {
		workspaceID := it.call.member.ID()
		if it.want.draft.ExternalID != nil {
			externalIDs.add(workspaceID, *it.want.draft.ExternalID)
		}
		switch it.want.draft.Strategy {
		case link.Deterministic:
			hashes.add(workspaceID, it.want.draft.CanonicalHash)
		case link.Custom:
			codes.add(workspaceID, it.want.draft.Code)
			if it.want.draft.CodeKey != nil {
				codeKeys.add(workspaceID, *it.want.draft.CodeKey)
			}
		}
	}
	e := &foundLinks{}
	e.lookups = []db.Lookup{
		lookUp(b, tx, &e.byHash, "strategy = 'DETERMINISTIC'", "canonical_hash", "BYTEA", hashes),
		lookUp(b, tx, &e.byCode, "TRUE", "code", "TEXT", codes),
		lookUp(b, tx, &e.byCodeKey, "TRUE", "code_key", "TEXT", codeKeys),
		lookUp(b, tx, &e.byExternalID, "TRUE", "external_id", "TEXT", externalIDs),
	}
	return e
}

// findUnresolved looks up the links of the unresolved items, and decides about these.
func (b *batch) findUnresolved(ctx context.Context, tx bun.Tx) error {
	found := b.lookUps(tx, b.unresolved())
	if err := b.store.DB.Pipe(ctx, tx, found.lookups...); err != nil {
		return fmt.Errorf("selecting links: %w", err)
	}
	return b.matchAndDecide(ctx, tx, found)
}

// matchAndDecide decides about the unresolved items, which find their existing links.
func (b *batch) matchAndDecide(ctx context.Context, tx bun.Tx, e *foundLinks) error {
	// A due change may have given a link another URL.
	if err := link.Complete(ctx, tx, b.now,
		slices.Concat(e.byHash, e.byCode, e.byCodeKey, e.byExternalID)...); err != nil {
		return err
	}
	items := b.unresolved()
	e.match(items)
	return b.decideAll(ctx, tx, items)
}

// decideAll decides about items by the facts. A shared batch leaves items that it cannot serve. It
// returns ErrRetry if a password must be compared first, which takes too long for a transaction.
func (b *batch) decideAll(ctx context.Context, tx bun.Tx, items []*item) error {
	if err := b.loadTags(ctx, tx); err != nil {
		return err
	}
	for _, it := range items {
		it.decide()
	}
	if err := b.leaveIf((*item).needsMore); err != nil {
		return err
	}
	if slices.ContainsFunc(b.items, (*item).needsComparison) {
		return ErrRetry
	}
	return nil
}

// decide decides about the item by its facts.
func (it *item) decide() {
	d := decide(&it.want, &it.try.facts)
	switch it.try.decision = d; d.act {
	case returns, revives, changes:
		it.try.result = link.Result{Link: d.link, Ignored: d.ignored, Dropped: d.dropped}
	case refuses:
		it.try.result = link.Result{Err: d.err}
	}
}

// place is a workspace and a code or an external id.
type place struct{ workspaceID, key string }

// at returns the place of a code or an external id of the item.
func (it *item) at(key string) place { return place{it.call.member.ID(), key} }

// match gives items those of the links that they find.
func (e *foundLinks) match(items []*item) {
	ofID, ofCode, ofKey := map[place]*link.Link{}, map[place]*link.Link{}, map[place]*link.Link{}
	for _, l := range e.byExternalID {
		if l.ExternalID != nil { // a due change may have released it
			ofID[place{l.WorkspaceID, *l.ExternalID}] = l
		}
	}
	same := map[identity]*link.Link{}
	for _, l := range slices.Concat(e.byHash, e.byCode, e.byCodeKey) {
		ofCode[place{l.WorkspaceID, l.Code}] = l
		if l.CodeKey != nil {
			ofKey[place{l.WorkspaceID, *l.CodeKey}] = l
		}
		same[identity{l.WorkspaceID, string(l.CanonicalHash), l.CodeIdentity()}] = l
		if l.Strategy == link.Deterministic {
			same[identity{workspaceID: l.WorkspaceID, hash: string(l.CanonicalHash)}] = l
		}
	}
	for _, it := range items {
		f, l := &it.try.facts, it.want.draft
		f.same, f.ofCode, f.ofID = same[it.identity], nil, nil
		if l.ExternalID != nil {
			f.ofID = ofID[it.at(*l.ExternalID)]
		}
		if l.Strategy == link.Custom {
			f.ofCode = ofCode[it.at(l.Code)]
		}
		if l.CodeKey != nil {
			if holder := ofKey[it.at(*l.CodeKey)]; holder != nil {
				if f.ofCode, f.same = holder, nil; bytes.Equal(holder.CanonicalHash, l.CanonicalHash) {
					f.same = holder
				}
			}
		}
		f.mayNotRevive = !it.call.member.May(workspace.WriteLinks)
		f.outside = errOutside(&it.want, f, it.call.member.IsInside)
	}
}

// needsMore reports whether a shared batch leaves the item, because its link must be revived or its
// password compared.
func (it *item) needsMore() bool { return it.try.decision.act == revives || it.needsComparison() }

// leaveIf leaves the calls of the workspaces with an item that meets the condition to other
// batches. Only a shared batch does so. It returns ErrRetry if the batch has written something.
func (b *batch) leaveIf(condition func(*item) bool) error {
	if !b.isShared {
		return nil
	}
	gone := map[string]bool{}
	for _, it := range b.items {
		if condition(it) {
			gone[it.call.member.ID()] = true
		}
	}
	if len(gone) > 0 && b.quotas != nil {
		return ErrRetry
	}
	b.items = slices.DeleteFunc(b.items, func(it *item) bool {
		hasLeft := gone[it.call.member.ID()]
		it.call.hasLeft = it.call.hasLeft || hasLeft
		return hasLeft
	})
	return nil
}

// wanted are keys with their workspaces.
type wanted[K any] struct {
	workspaceIDs []string
	keys         []K
}

func (w *wanted[K]) add(workspaceID string, key K) {
	w.workspaceIDs, w.keys = append(w.workspaceIDs, workspaceID), append(w.keys, key)
}

// lookUp returns a lookup of links by their workspaces and another column of a unique key.
func lookUp[K any](
	b *batch, conn bun.IDB, links *[]*link.Link, where, column, kind string, w wanted[K],
) db.Lookup {
	if len(w.keys) == 0 {
		return db.Lookup{}
	}
	p := b.store.DB.Params()
	return db.Lookup{Params: p, Dest: links, Query: db.ByPairs(p, conn.NewSelect().Model(links), db.Pairs{
		Rows: "SELECT * FROM links WHERE " + where, As: "link", First: "workspace_id", Second: column, Kind: kind,
	}, w.workspaceIDs, w.keys)}
}
