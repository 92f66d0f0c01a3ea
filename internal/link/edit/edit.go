// Package edit is what members do to links that exist: it updates, deletes, restores, reverts and
// claims them, one or many in a call, and undoes such calls. Package link locks and writes the
// links. The GraphQL resolvers call it.
package edit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Store changes links.
type Store struct {
	*link.Store
	// Quota is what claims consume.
	Quota *link.Quota
	// Folders are what DeleteFolder deletes.
	Folders *folder.Store
	// ReplaceWebhookTags lets the webhooks of a workspace follow ReplaceTags, in its transaction.
	ReplaceWebhookTags func(ctx context.Context, tx bun.Tx, m workspace.Membership, from []string, to *string) error
}

// now returns the current time in the precision of the database.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// The reasons for changes.
var (
	updated  = link.Reason{Action: audit.LinkUpdated, Cause: link.CauseUpdated}
	reverted = link.Reason{Action: audit.LinkUpdated, Cause: link.CauseReverted}
	claimed  = link.Reason{Action: audit.LinkClaimed, Cause: link.CauseClaimed}
	deleted  = link.Reason{Action: audit.LinkDeleted, Cause: link.CauseDeleted}
	restored = link.Reason{Action: audit.LinkRestored, Cause: link.CauseRestored}

	undoneCreation = link.Reason{Action: audit.LinkDeleted, Cause: link.CauseReverted}
	undoneDeletion = link.Reason{Action: audit.LinkRestored, Cause: link.CauseReverted}
)

// edit is EditIn in a transaction of its own. The redirects of this node count towards limits that
// it sets.
func (s *Store) edit(ctx context.Context, m workspace.Membership, e link.Edits) ([]link.Result, error) {
	if e.NeedClicks {
		s.AwaitClicks(ctx)
	}
	return s.transact(ctx, func(ctx context.Context, tx bun.Tx) ([]link.Result, error) {
		return s.EditIn(ctx, tx, m, e)
	})
}

// transact edits links in a transaction, which it may run again, and forgets them afterwards.
func (s *Store) transact(
	ctx context.Context, edit func(ctx context.Context, tx bun.Tx) ([]link.Result, error),
) (results []link.Result, err error) {
	change := func(ctx context.Context, tx bun.Tx) (err error) {
		results, err = edit(ctx, tx)
		return err
	}
	err = s.DB.Tx(ctx, change)
	// by one that took an external id or deleted a folder
	for races := 0; db.IsOvertaken(err) && races < link.MaxRaces; races++ {
		err = s.DB.Tx(ctx, change)
	}
	if err != nil && !errors.Is(err, link.ErrFailed) {
		return nil, fmt.Errorf("changing links: %w", err)
	}
	for _, r := range results {
		if r.Link != nil {
			s.Forget(r.Link)
		}
	}
	return results, nil
}

// single returns the result of a batch of one.
func single(results []link.Result, err error) (*link.Link, error) {
	if err != nil {
		return nil, err
	}
	return results[0].Link, results[0].Err
}
