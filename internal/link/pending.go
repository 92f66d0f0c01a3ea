package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// maxPending is how many changes of a link may be pending.
const maxPending = 20

// ScheduledChange is a change of a link at an instant.
type ScheduledChange struct {
	bun.BaseModel `bun:"table:scheduled_changes,alias:scheduled"`

	ID          string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	// DueAt is when it takes effect.
	DueAt time.Time
	Patch linkfield.Change
	// ActorID is the account or API key that scheduled it.
	ActorID   string
	CreatedAt time.Time

	// Link is the link as it is now; after is the link as it will be.
	Link  *Link `bun:"-"`
	after *Link
}

func (*ScheduledChange) IsEntity() {} // an entity of Apollo Federation

// isDue reports whether the change has taken effect.
func (c *ScheduledChange) isDue(now time.Time) bool { return !c.DueAt.After(now) }

func (c *ScheduledChange) event(actorID string, action audit.Action, now time.Time) *audit.Event {
	details := audit.Details{"id": c.ID, "at": c.DueAt.UTC().Format(time.RFC3339Nano), "fields": c.Patch.Names()}
	return audit.New(c.WorkspaceID, actorID, action, c.LinkID, details, now)
}

// urlRows returns the rows of link_urls of the URLs that the change sets.
func (c *ScheduledChange) urlRows(now time.Time) (rows []URLRow) {
	only := Link{ID: c.LinkID, WorkspaceID: c.WorkspaceID}
	c.Patch.Apply(&only.OriginalURL, &only.Settings)
	rows = only.urlRows(now)
	if c.Patch.URL.Set {
		row := URLRow{
			LinkID: c.LinkID, Field: "url", WorkspaceID: c.WorkspaceID, URL: c.Patch.URL.To,
			Check: Check{CheckAt: &now},
		}
		if u, err := Canonical(row.URL); err == nil {
			row.Host = u.Host()
		}
		rows = append(rows, row)
	}
	for i := range rows {
		rows[i].Field = c.ID + "." + rows[i].Field
	}
	return rows
}

// loadPending loads the pending changes of links. Most links have none, and need no statement.
func loadPending(ctx context.Context, conn bun.IDB, links ...*Link) error {
	byID, ids := map[string]*Link{}, []string{}
	for _, l := range links {
		if l.NextChangeAt != nil {
			byID[l.ID], l.pending = l, nil
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var changes []*ScheduledChange
	err := conn.NewSelect().Model(&changes).Where("link_id IN (?)", bun.In(ids)).Order("link_id", "due_at", "id").
		Scan(ctx)
	if err != nil {
		return fmt.Errorf("reading scheduled changes: %w", err)
	}
	for _, c := range changes {
		l := byID[c.LinkID]
		c.DueAt, l.pending = c.DueAt.UTC(), append(l.pending, c)
	}
	for _, l := range byID {
		l.setNextChange()
	}
	return nil
}

// setNextChange sets NextChangeAt as the trigger of the database does.
func (l *Link) setNextChange() {
	if l.NextChangeAt = nil; len(l.pending) > 0 {
		l.NextChangeAt = &l.pending[0].DueAt
	}
}

// AddPending adds a change to the pending ones of a link and writes it. patchOf returns its patch
// of the link in the state at that instant, and atErr is what is wrong with the instant. The caller
// has locked the link by Lock. It returns QuotaExceeded, and the error of the first state that is not
// valid, or has a URL that is refused.
func (s *Store) AddPending(
	ctx context.Context, tx bun.Tx, l *Link, added *ScheduledChange, atErr error,
	patchOf func(then Link) (linkfield.Change, error),
) error {
	earlier, _ := slices.BinarySearchFunc(l.pending, added.DueAt, func(c *ScheduledChange, at time.Time) int {
		if c.isDue(at) {
			return -1
		}
		return 1
	})
	then := *l
	for _, pending := range l.pending[:earlier] {
		then.applyPatch(&pending.Patch, pending.DueAt)
	}
	var err error
	added.Patch, err = patchOf(then)
	if err = errs.All(atErr, errs.Under(err, "change")); err != nil {
		return err
	}
	if len(l.pending) >= maxPending {
		return errs.New(errs.QuotaExceeded, "At most %d changes of a link can be pending. Cancel one first.",
			maxPending).
			At("linkId")
	}
	if added.Patch.FolderID.Set {
		err = l.In.CheckFolder(added.Patch.FolderID.To)
	}
	if err == nil && added.Patch.FolderID.To != nil {
		err = s.checkFolder(ctx, tx, l, *added.Patch.FolderID.To)
	}
	if err == nil {
		then.applyPatch(&added.Patch, added.DueAt)
		err = s.checkState(&then, added.DueAt, false)
	}
	if err != nil {
		return errs.From(err).Under("change")
	}
	l.pending = slices.Insert(slices.Clone(l.pending), earlier, added)
	states, err := s.validStates(ctx, l, false)
	if err != nil {
		return err
	}
	l.setNextChange()
	*added = *states[earlier]
	if err := s.refuseStates(ctx, tx, states[earlier:], added.ID); err != nil {
		return err
	}
	return s.insertPending(ctx, tx, added)
}

// insertPending writes a new change, its URLs, the maxima of its targets, and its event. The link
// does not change, so there is no version.
func (s *Store) insertPending(ctx context.Context, tx bun.Tx, c *ScheduledChange) error {
	if _, err := tx.NewInsert().Model(c).Exec(ctx); err != nil {
		return fmt.Errorf("writing a scheduled change: %w", err)
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, c.urlRows(s.now())); err != nil {
		return fmt.Errorf("adding the URLs of a scheduled change: %w", err)
	}
	var rows []grantRow
	for target, maxClicks := range c.after.Routing.MaxClicks() {
		rows = append(rows,
			grantRow{SubjectID: target, LinkID: c.LinkID, WorkspaceID: c.WorkspaceID, MaxClicks: maxClicks})
	}
	// Targets that exist have the present maximum until the change is written.
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: "ON CONFLICT DO NOTHING"}, rows); err != nil {
		return fmt.Errorf("writing the maxima of targets: %w", err)
	}
	return audit.Write(ctx, tx, c.event(c.Link.In.ActorID(), audit.LinkChangeScheduled, s.Now()))
}

// RemovePending cancels one of the pending changes of a link, and reports whether it is one. The
// caller has locked the link by Lock. It returns InvalidInput if a later change depends on it.
func (s *Store) RemovePending(ctx context.Context, tx bun.Tx, l *Link, changeID string) (found bool, err error) {
	at := slices.IndexFunc(l.pending, func(c *ScheduledChange) bool { return c.ID == changeID })
	if at < 0 {
		return false, nil
	}
	canceled := l.pending[at]
	l.pending = slices.Delete(slices.Clone(l.pending), at, at+1)
	if _, err := s.validStates(ctx, l, false); err != nil {
		return true, errs.From(err).At("id")
	}
	l.setNextChange()
	if err := s.deletePending(ctx, tx, canceled); err != nil {
		return true, err
	}
	return true, audit.Write(ctx, tx, canceled.event(l.In.ActorID(), audit.LinkChangeCanceled, s.Now()))
}

// CancelPending cancels, for the operator, the pending changes of links that set a URL whose host
// matches, and the later ones that are not valid without them. It returns how many. The caller has
// locked the links in the transaction, and has loaded their changes by WriteDue.
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
	if err := s.deletePending(ctx, tx, canceled...); err != nil {
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

// deletePending deletes changes and their URLs. A trigger updates the rows of their links.
func (s *Store) deletePending(ctx context.Context, tx bun.Tx, changes ...*ScheduledChange) error {
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
