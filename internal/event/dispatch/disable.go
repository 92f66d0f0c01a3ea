package dispatch

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
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
