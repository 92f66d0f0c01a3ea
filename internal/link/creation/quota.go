package creation

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// allowance is the number of links that a batch may insert in a workspace.
type allowance struct {
	wanted, created int
	// left is how many more links the quotas permit, exceeded the error beyond that.
	left     int64
	exceeded *errs.Error
}

// quotaOf returns the allowance of the item's workspace.
func (b *batch) quotaOf(it *item) *allowance { return b.quotas[it.call.member.ID()] }

// consumeQuotas consumes the quotas for the unresolved items, even beyond the limits, and with that
// locks them: transactions of a workspace insert links one after the other. A shared batch leaves
// the workspaces whose quota is locked, or has no row yet. Anonymous links have no quota.
func (b *batch) consumeQuotas(ctx context.Context, tx bun.Tx) error {
	quotas := map[string]*allowance{}
	for _, it := range b.unresolved() {
		workspaceID := it.call.member.ID()
		if quotas[workspaceID] == nil {
			quotas[workspaceID] = &allowance{
				left: b.store.quota.Limit(it.call.member), exceeded: b.store.quota.Exceeded(it.call.member, b.now),
			}
		}
		quotas[workspaceID].wanted++
	}
	if public := quotas[id.PublicWorkspace]; public != nil {
		public.left = math.MaxInt64
	}
	const unlocked = `CROSS JOIN LATERAL (SELECT FROM link_usage AS locked
		WHERE locked.workspace_id = input.workspace_id AND locked.month = input.month
		FOR UPDATE SKIP LOCKED) AS unlocked `
	rest := ""
	if b.isShared && b.store.DB.Kind == db.Postgres {
		rest = unlocked
	}
	used, err := link.AddUsage(ctx, tx, rest, b.usagesOf(quotas, func(a *allowance) int { return a.wanted })...)
	if err != nil {
		return err
	}
	isCharged := map[string]bool{id.PublicWorkspace: true}
	for _, u := range used {
		a := quotas[u.WorkspaceID]
		a.left, isCharged[u.WorkspaceID] = max(0, a.left-u.Links+int64(a.wanted)), true
	}
	if m := b.calls[0].member; m.IsPublishable() && quotas[m.ID()] != nil { // such a call is alone
		if err := b.consumeDay(ctx, tx, m, quotas[m.ID()]); err != nil {
			return err
		}
	}
	maps.DeleteFunc(quotas, func(workspaceID string, _ *allowance) bool { return !isCharged[workspaceID] })
	err = b.leaveIf(func(it *item) bool {
		return it.isOpen() && it.isUndecided() && !isCharged[it.call.member.ID()]
	})
	b.quotas = quotas
	return err
}

// consumeDay consumes the quota of a publishable key for a day, and restricts the allowance of the
// workspace to what that leaves.
func (b *batch) consumeDay(ctx context.Context, tx bun.Tx, m workspace.Membership, a *allowance) error {
	day, err := b.store.quota.AddDay(ctx, tx, m, b.now, int64(a.wanted), a.left)
	if err == nil && day.Left < a.left {
		a.left, a.exceeded = day.Left, day.Exceeded
	}
	return err
}

// returnQuotas returns links that were consumed and not created.
func (b *batch) returnQuotas(ctx context.Context, tx bun.Tx) error {
	m := b.calls[0].member
	if a := b.quotas[m.ID()]; a != nil && m.IsPublishable() && a.created < a.wanted {
		if _, err := b.store.quota.AddDay(ctx, tx, m, b.now, int64(a.created-a.wanted), a.left); err != nil {
			return err
		}
	}
	_, err := link.AddUsage(ctx, tx, "",
		b.usagesOf(b.quotas, func(a *allowance) int { return a.created - a.wanted })...)
	return err
}

// usagesOf returns how many links to add to the usage of workspaces, in the order of their ids.
func (b *batch) usagesOf(quotas map[string]*allowance, links func(*allowance) int) (rows []link.Usage) {
	for _, workspaceID := range slices.Sorted(maps.Keys(quotas)) {
		if n := links(quotas[workspaceID]); n != 0 && workspaceID != id.PublicWorkspace {
			rows = append(rows, link.NewUsage(workspaceID, b.now, n))
		}
	}
	return rows
}

// affordable returns the first items of each workspace, up to its quota.
func (b *batch) affordable(items []*item) (some []*item) {
	taken := map[*allowance]int64{}
	for _, it := range items {
		if a := b.quotaOf(it); taken[a] < a.left {
			taken[a]++
			some = append(some, it)
		}
	}
	return some
}

// distinct omits items that want the code or the external id of an earlier item.
func distinct(items []*item) []*item {
	type key struct {
		place  place
		isCode bool
	}
	given := map[key]bool{}
	return slices.DeleteFunc(items, func(it *item) bool {
		l := it.want.draft
		code, externalID := key{it.at(l.CodeIdentity()), true}, key{it.at(optional.Value(l.ExternalID)), false}
		isLater := given[code] || externalID.place.key != "" && given[externalID]
		given[code], given[externalID] = true, true
		return isLater
	})
}

// refuseForQuota fails items because the quota is used up.
func (b *batch) refuseForQuota(items []*item) {
	for _, it := range items {
		it.try.facts.overQuota = b.quotaOf(it).exceeded
		it.decide()
	}
}
