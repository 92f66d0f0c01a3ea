package edit

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// minLead is how far ahead a change must be: every connected node learns of it in less time.
	minLead = 5 * time.Second
	// maxLeadYears is how far ahead a change may be.
	maxLeadYears = 2
	// sweepBatch is how many links the job locks at once: few enough that a redirect never waits
	// long.
	sweepBatch = 500
)

// Schedules plans changes of links at an instant, cancels and lists them, and writes due changes.
// Packages link and resolve define the effect of a pending change on its link and on redirects.
type Schedules struct{ *link.Store }

// now returns the current time in the precision of the database.
func (s *Schedules) now() time.Time { return db.Instant(s.Now()) }

// Add changes a link at an instant, 5 seconds to 2 years ahead: its URL, title, note, tags, folder,
// redirect status and routing. It returns the errors of an update.
func (s *Schedules) Add(
	ctx context.Context, m workspace.Membership, linkID string, at time.Time, c linkfield.Change,
) (added *link.ScheduledChange, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := s.PrepareRoutings(ctx, m, []link.Routed{{Change: c.Routing.To, LinkID: linkID}}); err != nil {
		return nil, errs.From(err).Under("change")
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		links, err := s.Lock(ctx, tx, m, []string{linkID})
		if err != nil {
			return err
		}
		l := links[linkID]
		if l == nil || l.PurgedAt != nil {
			return errs.From(link.ErrNotFound()).At("linkId")
		}
		added = &link.ScheduledChange{
			ID: id.New(id.Scheduled), LinkID: l.ID, WorkspaceID: l.WorkspaceID, DueAt: db.Instant(at),
			ActorID:   m.ActorID(),
			CreatedAt: s.now(),
		}
		// The instant is checked now, because the lock may have taken long.
		return s.AddPending(ctx, tx, l, added, s.checkLead(at), func(then link.Link) (linkfield.Change, error) {
			return patchOf(c, then, s.now())
		})
	})
	if err != nil {
		return nil, fmt.Errorf("scheduling a change: %w", err)
	}
	s.Forget(added.Link)
	return added, nil
}

// checkLead checks how far ahead an instant is.
func (s *Schedules) checkLead(at time.Time) error {
	now := s.Now()
	if at.Before(now.Add(minLead)) || at.After(now.AddDate(maxLeadYears, 0, 0)) {
		return errs.New(errs.InvalidInput, "at must be 5 seconds to 2 years ahead.").At("at")
	}
	return nil
}

// patchOf validates a change of a link as it will be, and returns it with normalized values, and
// ids of new rules and targets.
func patchOf(c linkfield.Change, then link.Link, now time.Time) (linkfield.Change, error) {
	if len(c.Names()) == 0 {
		return c, errs.New(errs.InvalidInput, "The change must set at least one field.")
	}
	checks := []error{then.SetFields(&c, now)}
	for _, f := range linkfield.Fields {
		if *f.IsSet(&c) && !f.IsPlanned {
			checks = append(checks, errs.New(errs.InvalidInput, "%s cannot be scheduled.", f.Name).At(f.Name))
		}
	}
	if err := errs.All(checks...); err != nil {
		return c, err
	}
	if c.Routing.Set {
		c.Routing.To = c.Routing.To.Complete(then.Routing)
	}
	for _, f := range linkfield.Fields {
		f.Normalize(&c, &then.Values)
	}
	return c, nil
}

// Cancel removes a pending change, and returns its link. It returns NotFound, also for a change
// that has taken effect, and InvalidInput if a later change depends on it.
func (s *Schedules) Cancel(ctx context.Context, m workspace.Membership, changeID string) (l *link.Link, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var linkID string
		err := tx.NewSelect().Model((*link.ScheduledChange)(nil)).Column("link_id").Where("id = ?", changeID).
			Where("workspace_id = ?", m.ID()).Scan(ctx, &linkID)
		if err != nil {
			return db.NoRowsAs(errNoChange(), err, "reading a scheduled change")
		}
		links, err := s.Lock(ctx, tx, m, []string{linkID})
		if err != nil {
			return err
		}
		if l = links[linkID]; l == nil {
			return errNoChange()
		}
		found, err := s.RemovePending(ctx, tx, l, changeID)
		if err == nil && !found {
			return errNoChange()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("canceling a scheduled change: %w", err)
	}
	s.Forget(l)
	return l, nil
}

func errNoChange() error {
	return errs.New(errs.NotFound, "There is no such pending change: it has taken effect, or was canceled.").At("id")
}

// ApplyDue writes the changes that have taken effect, in batches with a transaction each. Redirects
// and reads do not depend on it. Each change is written exactly once, here or by an edit of its
// link: the transaction that writes it has locked the link, and deletes the change.
func (s *Schedules) ApplyDue(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for {
		var links []*link.Link
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			links = nil
			q := tx.NewSelect().Model(&links).Where("next_change_at <= ?", s.now()).Where("next_change_at IS NOT NULL").
				Order("next_change_at").Limit(sweepBatch)
			if err := s.DB.SkipLocked(q).Scan(ctx); err != nil {
				return err
			}
			return s.WriteDue(ctx, tx, links...)
		})
		if err != nil {
			return fmt.Errorf("writing scheduled changes: %w", err)
		}
		s.Forget(links...)
		if len(links) < sweepBatch {
			return nil
		}
	}
}
