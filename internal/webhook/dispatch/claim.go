package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/webhook"
)

// claimDuration is how long a node may take to send a delivery before others may send it.
const claimDuration = 2 * time.Minute

// claimed are deliveries that this node sends, and their webhook as it is now.
type claimed struct {
	webhook    *webhook.Webhook
	deliveries []*webhook.Delivery
}

// claim takes up to limit due deliveries of a webhook for this node, after those of new events were created. The lock of the webhook's row bounds
// the deliveries in flight on all nodes to its concurrency.
func (d *Dispatcher) claim(ctx context.Context, webhookID string, limit int64) (c claimed, err error) {
	err = d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		c = claimed{webhook: &webhook.Webhook{}}
		now := d.now()
		q := d.WithFilter(tx.NewSelect().Model(c.webhook)).Where("webhook.id = ?", webhookID).Where("status = ?", webhook.Active)
		if err := d.DB.SkipLocked(d.WithoutEnded(q)).Scan(ctx); err != nil {
			return err
		}
		inFlight, err := tx.NewSelect().Model((*webhook.Delivery)(nil)).Where("webhook_id = ?", webhookID).
			Where("claimed_until > ?", now).Count(ctx)
		if err != nil {
			return err
		}
		limit := max(0, min(limit, c.webhook.Concurrency-inFlight))
		if limit == 0 { // a LIMIT of 0 would mean none
			return d.setDue(ctx, tx, webhookID, now, false)
		}
		if err := d.refill(ctx, tx, c.webhook); err != nil {
			return err
		}
		err = tx.NewSelect().Model(&c.deliveries).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'").
			Where("due_at <= ?", now).Where("claimed_until IS NULL OR claimed_until <= ?", now).Order("due_at", "number").
			Limit(limit).Scan(ctx)
		if err != nil {
			return err
		}
		if err := d.mark(ctx, tx, &c, now); err != nil {
			return err
		}
		more := int64(len(c.deliveries)) == limit && inFlight+limit < c.webhook.Concurrency
		return d.setDue(ctx, tx, webhookID, now, more)
	})
	if errors.Is(err, sql.ErrNoRows) { // another node has it, or it is not active any more
		return claimed{}, nil
	}
	if err != nil {
		return claimed{}, fmt.Errorf("claiming deliveries: %w", err)
	}
	return c, nil
}

// mark stores the claim of deliveries.
func (d *Dispatcher) mark(ctx context.Context, tx bun.Tx, c *claimed, now time.Time) error {
	if len(c.deliveries) == 0 {
		return nil
	}
	until, ids := now.Add(claimDuration), []string{}
	for _, delivery := range c.deliveries {
		delivery.ClaimedUntil = &until
		ids = append(ids, delivery.ID)
	}
	_, err := tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("claimed_until = ?", until).Where("id IN (?)", bun.In(ids)).
		Exec(ctx)
	return err
}

// setDue stores when the webhook has to be looked at again: at once if more deliveries may be due,
// otherwise when the next one is due or a claim ends. Recorded attempts make it due, too.
func (d *Dispatcher) setDue(ctx context.Context, tx bun.Tx, webhookID string, now time.Time, more bool) error {
	next := &now
	if !more {
		var dueAt, endsAt []time.Time
		waiting := tx.NewSelect().Model((*webhook.Delivery)(nil)).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'")
		err := waiting.Column("due_at").Where("due_at > ?", now).Order("due_at").Limit(1).Scan(ctx, &dueAt)
		if err != nil {
			return err
		}
		err = tx.NewSelect().Model((*webhook.Delivery)(nil)).Column("claimed_until").Where("webhook_id = ?", webhookID).
			Where("claimed_until > ?", now).Order("claimed_until").Limit(1).Scan(ctx, &endsAt)
		if err != nil {
			return err
		}
		next = earliest(append(dueAt, endsAt...))
	}
	_, err := tx.NewUpdate().Model((*webhook.Webhook)(nil)).Set("due_at = ?", next).Where("id = ?", webhookID).Exec(ctx)
	return err
}

func earliest(all []time.Time) (first *time.Time) {
	for _, at := range all {
		if first == nil || at.Before(*first) {
			first = new(db.Instant(at))
		}
	}
	return first
}

// unclaim releases a delivery that was not sent.
func (d *Dispatcher) unclaim(ctx context.Context, delivery *webhook.Delivery) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), statementTimeout)
	defer cancel()
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := d.Touch(ctx, tx, delivery.WebhookID); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("claimed_until = NULL").Where("id = ?", delivery.ID).
			Where("claimed_until = ?", delivery.ClaimedUntil).Exec(ctx)
		return err
	})
}
