package creation

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// revived is the reason for reviving a link.
var revived = link.Reason{Action: audit.LinkRestored, Cause: link.CauseRevived}

// revive restores the deleted links that the batch has found, with the fields of their drafts. Once
// they are locked, it decides again: another transaction may have revived or disabled them.
func (b *batch) revive(ctx context.Context, tx bun.Tx) error {
	var items []*item
	var ids []string
	for _, it := range b.items {
		if it.try.decision.act == revives {
			items, ids = append(items, it), append(ids, it.try.decision.link.ID)
		}
	}
	if len(items) == 0 {
		return nil
	}
	links, err := b.store.Lock(ctx, tx, b.calls[0].member, ids)
	if err != nil {
		return err
	}
	if err := b.confirmCodes(ctx, tx, slices.Collect(maps.Values(links))); err != nil {
		return err
	}
	if err := b.store.CountClicks(ctx, tx, links); err != nil {
		return err
	}
	for _, it := range items {
		known := it.try.decision.link
		l := links[known.ID]
		if l == nil || !bytes.Equal(l.CanonicalHash, known.CanonicalHash) { // it has another URL now
			return ErrRetry
		}
		it.try.facts.update(l)
	}
	if err := b.loadTags(ctx, tx); err != nil {
		return err
	}
	var rewrites []link.Rewrite
	for _, it := range items {
		if it.decide(); it.try.decision.act == compares {
			return ErrRetry
		} else if it.try.decision.act != revives {
			continue
		}
		l := it.try.decision.link
		before := *l
		b.reviveAs(l, it.want.draft)
		l.In = it.call.member
		if err := b.store.RefusePending(ctx, tx, l); err != nil {
			if !errs.From(err).Kind.IsUserError() {
				return err
			}
			it.final = link.Result{Err: err}
			return ErrRetry // with a duplicate of it, which may have other fields
		}
		it.try.result.Revived, it.try.result.OperationID = true, it.call.operationID
		rewrites = append(rewrites, link.Rewrite{Before: &before, After: l, Operation: it.call.operationID})
	}
	return b.store.Apply(ctx, tx, revived, rewrites)
}

// update replaces a link by its present state.
func (f *facts) update(l *link.Link) {
	for _, known := range []**link.Link{&f.same, &f.ofCode, &f.ofID} {
		if *known != nil && (*known).ID == l.ID {
			*known = l
		}
	}
}

// reviveAs gives a deleted link the fields of the draft. A purged link has no redirects that count.
func (b *batch) reviveAs(l, draft *link.Link) {
	externalID := l.ExternalID
	if l.PurgedAt != nil {
		l.Granted, l.CreatedBy, externalID = 0, draft.CreatedBy, draft.ExternalID
	}
	l.Values, l.CanonicalURL = draft.Values, draft.CanonicalURL
	l.ExternalID = externalID
	l.DeletedAt, l.EndedAt, l.PurgedAt, l.CheckAt = nil, nil, nil, draft.CheckAt
	l.AssignCodeKey()
	l.Touch(b.now)
}
