package link

import (
	"cmp"
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
	"github.com/linkforge/linkforge/internal/routing/check"
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

// ScheduledChange is a change of a link at an instant.
type ScheduledChange struct {
	bun.BaseModel `bun:"table:scheduled_changes,alias:scheduled"`

	ID          string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	// DueAt is when it takes effect.
	DueAt time.Time
	Patch schedule.Patch
	// ActorID is the account or API key that scheduled it.
	ActorID   string
	CreatedAt time.Time

	// Link is the link as it is now; after is the link as it will be.
	Link  *Link `bun:"-"`
	after *Link
}

// isDue reports whether the change has taken effect.
func (c *ScheduledChange) isDue(now time.Time) bool { return !c.DueAt.After(now) }

// Changes returns the fields that it sets, with their values now and after it. The link has the tags now.
func (c *ScheduledChange) Changes(tags []string) []*audit.FieldChange {
	return audit.Pick(c.Link.snapshotWith(tags).fields(), c.after.snapshotWith(tags).fields(), c.Patch.Names()...)
}

// applyPatch changes the link as the patch says. The patch has been validated, so that it cannot fail.
func (l *Link) applyPatch(p *schedule.Patch, now time.Time) {
	before := l.OriginalURL
	p.Apply(&l.OriginalURL, &l.Settings)
	p.Title.Apply(&l.Title)
	p.Note.Apply(&l.Note)
	if p.Tags.Set {
		l.NewTags = append([]string{}, p.Tags.To...)
	}
	if l.OriginalURL != before {
		_ = l.setDestination(l.OriginalURL) // its URL is valid
		l.Check = Check{CheckAt: &now}
	}
}

// states returns the pending changes of the link with the states after them: each with all changes that are
// due before.
func (l *Link) states() []*ScheduledChange {
	states, state := make([]*ScheduledChange, 0, len(l.pending)), l
	for _, c := range l.pending {
		after := *state
		after.applyPatch(&c.Patch, c.DueAt)
		state = &after
		copied := *c
		copied.Link, copied.after = l, state
		states = append(states, &copied)
	}
	return states
}

// revalidate returns the error of the first state after a pending change of a link that an edit breaks.
func (s *Store) revalidate(ctx context.Context, before, after *Link) error {
	if len(after.pending) == 0 || after.OriginalURL == before.OriginalURL && after.Settings == before.Settings {
		return nil
	}
	_, err := s.validStates(ctx, after, after.Routing == before.Routing)
	return err
}

// validStates is states. It returns the error of the first one that is not valid. The link's own state is
// valid; if isRoutingSame, the routings of the others are known to be.
func (s *Store) validStates(ctx context.Context, l *Link, isRoutingSame bool) ([]*ScheduledChange, error) {
	states, previous := l.states(), l.Routing
	for _, c := range states {
		if err := ctx.Err(); err != nil { // the tests of routings take long
			return nil, err
		}
		if err := s.checkState(c.after, c.DueAt, isRoutingSame || c.after.Routing == previous); err != nil {
			return nil, c.errBroken(err)
		}
		previous = c.after.Routing
	}
	return states, nil
}

// checkState validates a state that begins at an instant. The routing may be known to be valid; its tests
// depend on the instant and on other fields.
func (s *Store) checkState(l *Link, at time.Time, isRoutingKnown bool) error {
	if err := l.check(); err != nil {
		return err
	}
	if !isRoutingKnown {
		if err := check.Routing(l.Routing); err != nil {
			return err
		}
	}
	return s.runTestsAt(l, at)
}

// errBroken is the error of an operation after which the state after the change is not valid.
func (c *ScheduledChange) errBroken(err error) error {
	e := errs.From(err)
	if !e.Kind.IsUserError() {
		return err
	}
	return errs.New(e.Kind, "This would break the scheduled change %s, due at %s: %s Cancel it first.", c.ID,
		c.DueAt.UTC().Format(time.RFC3339), e.Message)
}

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

// refuseStates returns an UnsafeURL error if one of the states has a URL that is refused by package
// destination. The field of the state after the change with the id is that of the input.
func (s *Store) refuseStates(ctx context.Context, conn bun.IDB, states []*ScheduledChange, ownID string) error {
	links := make([]*Link, 0, len(states))
	for _, state := range states {
		links = append(links, state.after)
	}
	refused, err := s.refused(ctx, conn, links)
	if err != nil || len(refused) == 0 {
		return err
	}
	for _, state := range states {
		switch e := refused[state.after]; {
		case e == nil:
		case state.ID != ownID:
			return state.errBroken(e)
		case len(e.Field) == 0:
			return e.At("change", "url")
		default:
			return e.Under("change")
		}
	}
	return nil
}

// RefusePending returns an error if a state after a pending change of the link is not valid, or has a URL
// that is refused.
func (s *Store) RefusePending(ctx context.Context, conn bun.IDB, l *Link) error {
	states, err := s.validStates(ctx, l, false)
	if err != nil {
		return err
	}
	return s.refuseStates(ctx, conn, states, "")
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

func (c *ScheduledChange) event(actorID string, action audit.Action, now time.Time) *audit.Event {
	details := audit.Details{"id": c.ID, "at": c.DueAt.UTC().Format(time.RFC3339Nano), "fields": c.Patch.Names()}
	return audit.New(c.WorkspaceID, actorID, action, c.LinkID, details, now)
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

// urlRows returns the rows of link_urls of the URLs that the change sets.
func (c *ScheduledChange) urlRows(now time.Time) (rows []URLRow) {
	only := Link{ID: c.LinkID, WorkspaceID: c.WorkspaceID}
	c.Patch.Apply(&only.OriginalURL, &only.Settings)
	rows = only.urlRows(now)
	if c.Patch.URL.Set {
		row := URLRow{
			LinkID: c.LinkID, Field: "url", WorkspaceID: c.WorkspaceID, URL: c.Patch.URL.To, Check: Check{CheckAt: &now},
		}
		if u, err := canonical(row.URL); err == nil {
			row.Host = u.Host()
		}
		rows = append(rows, row)
	}
	for i := range rows {
		rows[i].Field = c.ID + "." + rows[i].Field
	}
	return rows
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

func errNoScheduledChange() error {
	return errs.New(errs.NotFound, "There is no such pending change: it has taken effect, or was canceled.").At("id")
}

// Changes returns the scheduled changes of workspaces.
func (s *Store) Changes() workspace.Collection[ScheduledChange] {
	return workspace.Collection[ScheduledChange]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Scheduled, Column: "id",
		Missing: errs.From(errNoScheduledChange()).Message,
	}
}

// PendingByID returns the pending changes with the ids, with their links. Other ids are omitted. It returns Forbidden.
func (s *Store) PendingByID(ctx context.Context, m workspace.Membership, ids ...string) (found []*ScheduledChange, err error) {
	wanted, err := s.Changes().ByID(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	linkIDs := make([]string, 0, len(wanted))
	for _, c := range wanted {
		linkIDs = append(linkIDs, c.LinkID)
	}
	links, err := s.Many(ctx, m, linkIDs...)
	if err != nil {
		return nil, err
	}
	changes, err := s.Scheduled(ctx, m, linkIDs...)
	for linkID, l := range links {
		for _, c := range l.Pending(changes[linkID], s.now()) {
			if slices.Contains(ids, c.ID) {
				found = append(found, c)
			}
		}
	}
	return found, err
}

// Scheduled returns the changes of links of the workspace that are not written yet, soonest first, by the
// links' ids.
func (s *Store) Scheduled(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string][]*ScheduledChange, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []*ScheduledChange
	err = s.DB.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(linkIDs)).Where("workspace_id = ?", m.ID()).
		Order("link_id", "due_at", "id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading scheduled changes: %w", err)
	}
	changes := map[string][]*ScheduledChange{}
	for _, c := range rows {
		changes[c.LinkID] = append(changes[c.LinkID], c)
	}
	return changes, nil
}

// ScheduledBy returns the pending changes of the workspace that the account or API key scheduled, soonest first, up to
// MaxScheduledBy. It returns Forbidden.
func (s *Store) ScheduledBy(
	ctx context.Context, m workspace.Membership, actorID string,
) (found []*ScheduledChange, err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	now, ids := s.now(), []string{}
	found = []*ScheduledChange{}
	if !id.Valid(id.Account, actorID) && !id.Valid(id.Key, actorID) {
		return found, nil
	}
	err = s.DB.NewSelect().Model((*ScheduledChange)(nil)).Column("link_id").Where("workspace_id = ?", m.ID()).
		Where("actor_id = ?", actorID).Where("due_at > ?", now).Order("due_at", "id").Limit(MaxScheduledBy).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("reading scheduled changes: %w", err)
	}
	if len(ids) == 0 {
		return found, nil
	}
	links, err := s.byIDs(ctx, m, ids)
	if err != nil {
		return nil, err
	}
	changes, err := s.Scheduled(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	for linkID, l := range links {
		for _, c := range l.Pending(changes[linkID], now) {
			if c.ActorID == actorID {
				found = append(found, c)
			}
		}
	}
	slices.SortFunc(found, func(a, b *ScheduledChange) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(len(found), MaxScheduledBy)], nil
}

// Pending returns those of the changes that have not taken effect, with the link as it is now and will be.
func (l *Link) Pending(changes []*ScheduledChange, now time.Time) []*ScheduledChange {
	loaded := *l
	loaded.pending = slices.DeleteFunc(slices.Clone(changes), func(c *ScheduledChange) bool { return c.isDue(now) })
	return loaded.states()
}

// Keys identify links of a workspace.
type Keys struct{ IDs, ExternalIDs []string }

// Stored is the size of the stored parts of links that a change of them reads.
type Stored struct {
	RoutingBytes int64 // of routings as JSON
	Pending      int64 // changes
}

// SizeOf returns the size of the routings of the first links, and of the pending changes of the second.
func (s *Store) SizeOf(ctx context.Context, m workspace.Membership, routed, pending Keys) (size Stored, err error) {
	if ctx, err = m.Enter(ctx, workspace.WriteLinks); err != nil {
		return size, err
	}
	changes := s.DB.NewSelect().Model((*ScheduledChange)(nil)).ColumnExpr("count(*)").
		Where("link_id IN (?)", s.withIDs(m, pending).Column("id").Where("next_change_at IS NOT NULL"))
	err = s.withIDs(m, routed).Where("routing IS NOT NULL").
		ColumnExpr("coalesce(sum(octet_length(CAST(routing AS TEXT))), 0)").ColumnExpr("(?)", changes).
		Scan(ctx, &size.RoutingBytes, &size.Pending)
	if err != nil {
		return size, fmt.Errorf("reading the size of links: %w", err)
	}
	return size, nil
}

// withIDs selects the workspace's links with one of the keys. It leaves out what can be none.
func (s *Store) withIDs(m workspace.Membership, keys Keys) *bun.SelectQuery {
	ids := validIDs(keys.IDs)
	var known []string
	for _, one := range keys.ExternalIDs {
		if normal, err := CheckExternalID(one); err == nil {
			known = append(known, normal)
		}
	}
	return s.DB.NewSelect().Model((*Link)(nil)).Where("workspace_id = ?", m.ID()).
		Where("id IN (?) OR external_id IN (?)", bun.In(ids), bun.In(known))
}

// EffectiveTags returns the tags of a link that Complete has applied changes to; ok is false if they are as
// stored.
func (l *Link) EffectiveTags() (tags []string, ok bool) {
	return l.NewTags, l.stored != nil && l.NewTags != nil
}
