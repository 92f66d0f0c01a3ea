package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// permissionFor returns the permission to read events of a type, besides LINKS_READ.
func permissionFor(t audit.Action) workspace.Permission {
	switch {
	case t == audit.LinkClicked:
		return workspace.ReadStats
	case slices.Contains(audit.DomainActions, t):
		return workspace.ReadDomains
	}
	return workspace.ReadLinks
}

// CheckReads returns Forbidden unless the caller may read all that the webhook receives. Otherwise,
// a caller could have it sent to an address of their own, or forge it with the secret.
func CheckReads(ctx context.Context, m workspace.Membership, w *Webhook) error {
	needed := []workspace.Permission{workspace.ReadLinks}
	for _, t := range w.Types {
		needed = append(needed, permissionFor(t))
	}
	for _, p := range needed {
		if _, err := m.Enter(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// checkReadsDeliveries returns Forbidden unless the caller may read the selected deliveries of a
// webhook. They may be of types that the webhook does not receive any more.
func checkReadsDeliveries(
	ctx context.Context, tx bun.Tx, m workspace.Membership, w *Webhook,
	selected func(*bun.SelectQuery) *bun.SelectQuery,
) error {
	hidden := slices.DeleteFunc(Types(), func(t audit.Action) bool { return m.May(permissionFor(t)) })
	if len(hidden) == 0 {
		return nil
	}
	var found []audit.Action
	q := tx.NewSelect().Model((*Delivery)(nil)).Column("type").Where("webhook_id = ?", w.ID).
		Where("type IN (?)", bun.In(hidden)).Limit(1)
	if err := selected(q).Scan(ctx, &found); err != nil {
		return fmt.Errorf("checking the types of deliveries: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	_, err := m.Enter(ctx, permissionFor(found[0]))
	return err
}
