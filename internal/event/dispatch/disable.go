package dispatch

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// isHopeless reports whether a failed attempt disables the webhook: the receiver is gone, or a
// delivery has failed for good and none has succeeded since its first attempt.
func (d *Dispatcher) isHopeless(ctx context.Context, tx bun.Tx, delivery *webhook.Delivery, o outcome) (bool, error) {
	if o.isGone() {
		return true, nil
	}
	if delivery.Tries+1 < len(schedule) || delivery.FirstTriedAt == nil {
		return false, nil
	}
	return tx.NewSelect().Model((*webhook.Webhook)(nil)).Where("id = ?", delivery.WebhookID).
		Where("failing_since <= ?", *delivery.FirstTriedAt).Exists(ctx)
}

// disable disables the webhooks of creators that have lost the permission, and sends emails that no
// node has sent. Their deliveries are not sent anyway.
func (d *Dispatcher) disable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	return errors.Join(d.DisableEnded(ctx), d.announce(ctx))
}
