package link

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

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
