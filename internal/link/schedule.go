package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/schedule"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// minLead is how far ahead a change must be: every connected node learns of it in less time.
	minLead = 5 * time.Second
	// maxLeadYears is how far ahead a change may be.
	maxLeadYears = 2
	// maxScheduled is how many changes of a link may be pending.
	maxScheduled = 20
	// MaxScheduledBy is how many changes ScheduledBy returns.
	MaxScheduledBy = 100
)

// Schedule changes a link at an instant, 5 seconds to 2 years ahead: its URL, title, note, tags, redirect
// status and routing. It returns the errors of Update.
func (s *Store) Schedule(
	ctx context.Context, m workspace.Membership, linkID string, at time.Time, c Change,
) (scheduled *ScheduledChange, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := s.checkLead(at); err != nil {
		return nil, err
	}
	if err := s.PrepareRoutings(ctx, m, []Routed{{Change: c.Routing.To, LinkID: linkID}}); err != nil {
		return nil, errs.From(err).Under("change")
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		links, err := s.Lock(ctx, tx, m, []string{linkID})
		if err != nil {
			return err
		}
		if err := s.checkLead(at); err != nil { // the lock may have taken long
			return err
		}
		l := links[linkID]
		if l == nil || l.PurgedAt != nil {
			return errs.From(ErrNotFound()).At("linkId")
		}
		scheduled = &ScheduledChange{
			ID: id.New(id.Scheduled), LinkID: l.ID, WorkspaceID: l.WorkspaceID, DueAt: db.Instant(at), ActorID: m.ActorID(),
			CreatedAt: s.now(),
		}
		if err := s.addPending(ctx, tx, l, scheduled, c); err != nil {
			return err
		}
		return s.insertScheduled(ctx, tx, scheduled)
	})
	if err != nil {
		return nil, fmt.Errorf("scheduling a change: %w", err)
	}
	s.Forget(scheduled.Link)
	return scheduled, nil
}

// checkLead checks how far ahead an instant is.
func (s *Store) checkLead(at time.Time) error {
	now := s.Now()
	if at.Before(now.Add(minLead)) || at.After(now.AddDate(maxLeadYears, 0, 0)) {
		return errs.New(errs.InvalidInput, "at must be 5 seconds to 2 years ahead.").At("at")
	}
	return nil
}

// addPending validates a new change, completes its patch, and adds it to the pending changes of the link,
// whose row is locked.
func (s *Store) addPending(ctx context.Context, tx bun.Tx, l *Link, added *ScheduledChange, c Change) error {
	if len(l.pending) >= maxScheduled {
		return errs.New(errs.QuotaExceeded, "At most %d changes of a link can be pending. Cancel one first.", maxScheduled).
			At("linkId")
	}
	earlier, _ := slices.BinarySearchFunc(l.pending, added.DueAt, func(c *ScheduledChange, at time.Time) int {
		if c.isDue(at) {
			return -1
		}
		return 1
	})
	base := *l
	for _, pending := range l.pending[:earlier] {
		base.applyPatch(&pending.Patch, pending.DueAt)
	}
	var err error
	if added.Patch, err = s.patchOf(&c, base, added.DueAt); err != nil {
		return errs.From(err).Under("change")
	}
	l.pending = slices.Insert(slices.Clone(l.pending), earlier, added)
	states, err := s.validStates(ctx, l, false)
	if err != nil {
		return err
	}
	l.NextChangeAt = &l.pending[0].DueAt
	*added = *states[earlier]
	return s.refuseStates(ctx, tx, states[earlier:], added.ID)
}

// patchOf validates a change of a link as it will be at an instant, and returns it with normalized values,
// and ids of new rules and targets.
func (s *Store) patchOf(c *Change, l Link, at time.Time) (p schedule.Patch, err error) {
	if err := c.SetFields(&l, s.now()); err != nil {
		return p, err
	}
	if c.Routing.Set {
		if err := l.ChangeRouting(c.Routing.To); err != nil {
			return p, err
		}
		p.Routing = optional.Set(c.Routing.To.Complete(l.Routing))
	}
	if c.URL.Set {
		p.URL = optional.Set(l.OriginalURL)
	}
	if c.Title.Set {
		p.Title = optional.Set(l.Title)
	}
	if c.Note.Set {
		p.Note = optional.Set(l.Note)
	}
	if c.Tags.Set {
		p.Tags = optional.Set(l.NewTags)
	}
	p.RedirectStatus = c.RedirectStatus
	if len(p.Names()) == 0 {
		return p, errs.New(errs.InvalidInput, "The change must set at least one field.")
	}
	return p, s.checkState(&l, at, false)
}

// insertScheduled writes a new change, its URLs, and the maxima of its targets.
func (s *Store) insertScheduled(ctx context.Context, tx bun.Tx, c *ScheduledChange) error {
	if _, err := tx.NewInsert().Model(c).Exec(ctx); err != nil {
		return fmt.Errorf("writing a scheduled change: %w", err)
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, c.urlRows(s.now())); err != nil {
		return fmt.Errorf("adding the URLs of a scheduled change: %w", err)
	}
	var rows []grantRow
	for target, maxClicks := range c.after.Routing.MaxClicks() {
		rows = append(rows, grantRow{SubjectID: target, LinkID: c.LinkID, WorkspaceID: c.WorkspaceID, MaxClicks: maxClicks})
	}
	// Targets that exist have the present maximum until the change is written.
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: "ON CONFLICT DO NOTHING"}, rows); err != nil {
		return fmt.Errorf("writing the maxima of targets: %w", err)
	}
	return s.auditSchedule(ctx, tx, c, audit.LinkChangeScheduled)
}

// auditSchedule records that the change was scheduled or canceled. These are no changes of the link, so
// they have no version.
func (s *Store) auditSchedule(ctx context.Context, tx bun.Tx, c *ScheduledChange, action audit.Action) error {
	return audit.Write(ctx, tx, c.event(c.Link.In.ActorID(), action, s.Now()))
}

// CancelPending cancels, for the operator, the pending changes of links that set a URL whose host matches, and the
// later ones that are not valid without them. It returns how many. The caller has locked the links in the transaction, and
// has loaded their changes by WriteDue.
func (s *Store) CancelPending(
	ctx context.Context, tx bun.Tx, matches func(host string) bool, links ...*Link,
) (n int, err error) {
	var canceled []*ScheduledChange
	var events []*audit.Event
	for _, l := range links {
		pending := l.pending
		l.pending = slices.DeleteFunc(slices.Clone(pending), func(c *ScheduledChange) bool {
			return slices.ContainsFunc(c.urlRows(time.Time{}), func(u URLRow) bool { return matches(u.Host) })
		})
		if len(l.pending) < len(pending) {
			s.dropBroken(l)
		}
		for _, c := range pending {
			if !slices.Contains(l.pending, c) {
				canceled, events = append(canceled, c), append(events, c.event("", audit.LinkChangeCanceled, s.Now()))
			}
		}
		l.setNextChange()
	}
	if len(canceled) == 0 {
		return 0, nil
	}
	if err := s.deleteScheduled(ctx, tx, canceled...); err != nil {
		return 0, err
	}
	return len(canceled), audit.Write(ctx, tx, events...)
}

// dropBroken removes pending changes of a link until the states after the others are valid.
func (s *Store) dropBroken(l *Link) {
	isBroken := func(c *ScheduledChange) bool { return s.checkState(c.after, c.DueAt, false) != nil }
	for {
		i := slices.IndexFunc(l.states(), isBroken)
		if i < 0 {
			return
		}
		l.pending = slices.Delete(l.pending, i, i+1)
	}
}

// Cancel removes a pending change, and returns its link. It returns NotFound, also for a change that has
// taken effect, and InvalidInput if a later change depends on it.
func (s *Store) Cancel(ctx context.Context, m workspace.Membership, changeID string) (l *Link, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var linkID string
		err := tx.NewSelect().Model((*ScheduledChange)(nil)).Column("link_id").Where("id = ?", changeID).
			Where("workspace_id = ?", m.ID()).Scan(ctx, &linkID)
		if err != nil {
			return db.NoRowsAs(errNoScheduledChange(), err, "reading a scheduled change")
		}
		links, err := s.Lock(ctx, tx, m, []string{linkID})
		if err != nil {
			return err
		}
		if l = links[linkID]; l == nil {
			return errNoScheduledChange()
		}
		return s.removePending(ctx, tx, l, changeID)
	})
	if err != nil {
		return nil, fmt.Errorf("canceling a scheduled change: %w", err)
	}
	s.Forget(l)
	return l, nil
}

// removePending removes one of the pending changes of a link, whose row is locked.
func (s *Store) removePending(ctx context.Context, tx bun.Tx, l *Link, changeID string) error {
	at := slices.IndexFunc(l.pending, func(c *ScheduledChange) bool { return c.ID == changeID })
	if at < 0 {
		return errNoScheduledChange()
	}
	canceled := l.pending[at]
	canceled.Link = l
	l.pending = slices.Delete(slices.Clone(l.pending), at, at+1)
	if _, err := s.validStates(ctx, l, false); err != nil {
		return errs.From(err).At("id")
	}
	l.setNextChange()
	if err := s.deleteScheduled(ctx, tx, canceled); err != nil {
		return err
	}
	return s.auditSchedule(ctx, tx, canceled, audit.LinkChangeCanceled)
}

// deleteScheduled deletes changes and their URLs. A trigger updates the rows of their links.
func (s *Store) deleteScheduled(ctx context.Context, tx bun.Tx, changes ...*ScheduledChange) error {
	ids, linkIDs := make([]string, 0, len(changes)), make([]string, 0, len(changes))
	for _, c := range changes {
		ids, linkIDs = append(ids, c.ID), append(linkIDs, c.LinkID)
	}
	_, err := tx.NewDelete().Model((*URLRow)(nil)).Where("link_id IN (?)", bun.In(linkIDs)).
		Where("substr(field, 1, ?) IN (?)", len(changes[0].ID), bun.In(ids)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("removing the URLs of scheduled changes: %w", err)
	}
	if _, err := tx.NewDelete().Model((*ScheduledChange)(nil)).Where("id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return fmt.Errorf("removing scheduled changes: %w", err)
	}
	return nil
}
