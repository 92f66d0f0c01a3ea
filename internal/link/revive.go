package link

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
)

// revive brings the deleted links among those that were found back, as their drafts describe them.
// One that the operator has disabled stays down.
func (b *batch) revive(ctx context.Context, tx bun.Tx) error {
	var ids []string
	for _, r := range b.rows {
		if l := r.attempt.Link; l != nil && l.DeletedAt != nil {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	links, err := b.lock(ctx, tx, b.member, ids)
	if err != nil {
		return err
	}
	if err := b.countClicks(ctx, tx, links); err != nil {
		return err
	}
	var revived []change
	for _, r := range b.rows {
		if r.attempt.Link == nil || r.attempt.Link.DeletedAt == nil {
			continue
		}
		l := links[r.attempt.Link.ID]
		if l != nil {
			l.In = r.member
		}
		switch {
		case l == nil:
			return errAgain
		case l.DisabledAt != nil:
			r.attempt = Result{Err: errDisabled().At("url")}
			continue
		case l.DeletedAt != nil: // else somebody else was faster
			before := *l
			b.reviveAs(l, r.draft)
			r.revived = true
			revived = append(revived, change{before: &before, after: l})
		}
		r.attempt.Link = l
	}
	return b.apply(ctx, tx, audit.LinkRestored, revived)
}

// reviveAs makes a deleted link what the draft describes. Of a purged one nothing is left that
// could count.
func (b *batch) reviveAs(l, draft *Link) {
	if l.PurgedAt != nil {
		l.Granted, l.CreatedBy = 0, draft.CreatedBy
	}
	l.OriginalURL, l.CanonicalURL = draft.OriginalURL, draft.CanonicalURL
	l.Title, l.Note, l.tags, l.ArchivedAt = draft.Title, draft.Note, draft.tags, nil
	l.Settings = draft.Settings
	l.DeletedAt, l.EndedAt, l.PurgedAt, l.CheckAt = nil, nil, nil, draft.CheckAt
	l.touch(b.now)
}
