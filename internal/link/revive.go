package link

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
)

// revive restores the deleted links that the batch has found, with the fields of their drafts. A
// link that the operator has disabled is not revived.
func (b *batch) revive(ctx context.Context, tx bun.Tx) error {
	var ids []string
	for _, it := range b.items {
		if l := it.attempt.Link; l != nil && it.revives(l) {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	links, err := b.lock(ctx, tx, b.calls[0].member, ids)
	if err != nil {
		return err
	}
	if err := b.countClicks(ctx, tx, links); err != nil {
		return err
	}
	var rewrites []rewrite
	var late []*item // a concurrent request has revived their links
	for _, it := range b.items {
		if it.attempt.Link == nil || !it.revives(it.attempt.Link) {
			continue
		}
		l := links[it.attempt.Link.ID]
		if l == nil {
			return errRetry
		}
		if l.In = it.call.member; l.DisabledAt != nil {
			it.attempt = Result{Err: errDisabled().At("url")}
			continue
		}
		if l.DeletedAt == nil && it.upsert == nil {
			it.found, late = l, append(late, it)
		} else if l.DeletedAt != nil {
			before := *l
			b.reviveAs(l, it.draft)
			if err := b.refusePending(ctx, tx, l); err != nil {
				if !errs.From(err).Kind.IsUserError() {
					return err
				}
				*l, it.attempt = before, Result{Err: err}
				continue
			}
			it.revived = true
			it.attempt.OperationID = it.call.operationID
			rewrites = append(rewrites, rewrite{before: &before, after: l, operation: it.call.operationID})
		}
		it.attempt.Link = l
	}
	if err := b.apply(ctx, tx, revived, rewrites); err != nil {
		return err
	}
	return b.reuseFound(ctx, tx, late)
}

// revives reports whether the item gives a link the fields of its draft. An upsert restores a deleted
// link with the fields that it has, unless it was purged.
func (it *item) revives(l *Link) bool {
	return l.DeletedAt != nil && (it.upsert == nil || l.PurgedAt != nil)
}

// reviveAs gives a deleted link the fields of the draft. A purged link has no redirects that count.
func (b *batch) reviveAs(l, draft *Link) {
	if l.PurgedAt != nil {
		l.Granted, l.CreatedBy, l.ExternalID = 0, draft.CreatedBy, draft.ExternalID
	}
	l.OriginalURL, l.CanonicalURL = draft.OriginalURL, draft.CanonicalURL
	l.Title, l.Note, l.tags = draft.Title, draft.Note, draft.tags
	l.ArchivedAt, l.StatsPublic = draft.ArchivedAt, draft.StatsPublic
	l.Settings, l.Metadata = draft.Settings, draft.Metadata
	l.DeletedAt, l.EndedAt, l.PurgedAt, l.CheckAt = nil, nil, nil, draft.CheckAt
	l.touch(b.now)
}
