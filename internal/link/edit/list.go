package edit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// MaxScheduledByActor is how many changes ByActor returns.
const MaxScheduledByActor = 100

// Changes returns the scheduled changes of workspaces.
func (s *Schedules) Changes() workspace.Collection[link.ScheduledChange] {
	return workspace.Collection[link.ScheduledChange]{
		DB: s.DB, Permission: workspace.ReadLinks, Prefix: id.Scheduled, Column: "id",
		Missing: errs.From(errNoChange()).Message,
	}
}

// ByID returns the pending changes with the ids, with their links. Other ids are omitted. It
// returns Forbidden.
func (s *Schedules) ByID(
	ctx context.Context, m workspace.Membership, ids ...string,
) (found []*link.ScheduledChange, err error) {
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
	changes, err := s.ByLink(ctx, m, linkIDs...)
	for linkID, l := range links {
		for _, c := range l.Pending(changes[linkID], s.now()) {
			if slices.Contains(ids, c.ID) {
				found = append(found, c)
			}
		}
	}
	return found, err
}

// ByLink returns the changes of links of the workspace that are not written yet, soonest first, by
// the links' ids.
func (s *Schedules) ByLink(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string][]*link.ScheduledChange, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []*link.ScheduledChange
	err = s.DB.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(linkIDs)).Where("workspace_id = ?", m.ID()).
		Order("link_id", "due_at", "id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading scheduled changes: %w", err)
	}
	changes := map[string][]*link.ScheduledChange{}
	for _, c := range rows {
		changes[c.LinkID] = append(changes[c.LinkID], c)
	}
	return changes, nil
}

// ByActor returns the pending changes of the workspace that the account or API key scheduled,
// soonest first, up to MaxByActor. It returns Forbidden.
func (s *Schedules) ByActor(
	ctx context.Context, m workspace.Membership, actorID string,
) (found []*link.ScheduledChange, err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	now, ids := s.now(), []string{}
	found = []*link.ScheduledChange{}
	if !id.Valid(id.Account, actorID) && !id.Valid(id.Key, actorID) {
		return found, nil
	}
	err = s.DB.NewSelect().Model((*link.ScheduledChange)(nil)).Column("link_id").Where("workspace_id = ?", m.ID()).
		Where("actor_id = ?", actorID).Where("due_at > ?", now).Apply(m.InsideByID("link_id")).Order("due_at", "id").
		Limit(MaxScheduledByActor).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("reading scheduled changes: %w", err)
	}
	if len(ids) == 0 {
		return found, nil
	}
	links, err := s.Many(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	changes, err := s.ByLink(ctx, m, ids...)
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
	slices.SortFunc(found, func(a, b *link.ScheduledChange) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(len(found), MaxScheduledByActor)], nil
}
