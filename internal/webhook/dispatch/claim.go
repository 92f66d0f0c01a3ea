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

// claim creates deliveries of new events of a webhook, and takes up to limit due deliveries for this node. The lock of the webhook's row
// bounds the deliveries in flight on all nodes to its concurrency. It returns none if another node has the lock.
func (d *Dispatcher) claim(ctx context.Context, webhookID string, limit int64) (*webhook.Webhook, []*webhook.Delivery, error) {
	w, deliveries := &webhook.Webhook{}, []*webhook.Delivery{}
	err := d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		*w, deliveries = webhook.Webhook{}, nil
		now := d.now()
		q := d.WithoutEnded(tx.NewSelect().Model(w).Where("webhook.id = ?", webhookID).Where("status = ?", webhook.Active))
		if err := d.DB.SkipLocked(q).Scan(ctx); err != nil {
			return err
		}
		inFlight, err := tx.NewSelect().Model((*webhook.Delivery)(nil)).Where("webhook_id = ?", webhookID).
			Where("claimed_until > ?", now).Count(ctx)
		if err != nil {
			return err
		}
		room := min(limit, w.Concurrency-inFlight)
		if room <= 0 { // bun omits a LIMIT of 0
			return setDue(ctx, tx, webhookID, now, true)
		}
		if err := d.refill(ctx, tx, w); err != nil {
			return err
		}
		err = tx.NewSelect().Model(&deliveries).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'").
			Where("due_at <= ?", now).Where("claimed_until IS NULL OR claimed_until <= ?", now).Order("due_at", "number").
			Limit(room).Scan(ctx)
		if err != nil {
			return err
		}
		until, ids := now.Add(claimDuration), []string{}
		for _, delivery := range deliveries {
			delivery.ClaimedUntil = &until
			ids = append(ids, delivery.ID)
		}
		if len(ids) > 0 {
			_, err = tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("claimed_until = ?", until).Where("id IN (?)", bun.In(ids)).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return setDue(ctx, tx, webhookID, now, inFlight+int64(len(deliveries)) >= w.Concurrency)
	})
	if errors.Is(err, sql.ErrNoRows) { // another node has it, or it is not active any more
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("claiming deliveries: %w", err)
	}
	return w, deliveries, nil
}

// setDue stores when a locked webhook has to be looked at again: at once if it is behind the log, when the next delivery is due, and when a
// claim ends. While as many requests are in flight as may be, it waits for the end of one: record calls setDue, too.
func setDue(ctx context.Context, tx bun.Tx, webhookID string, now time.Time, isFull bool) error {
	waiting := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("min(due_at) AS due_at").Where("webhook_id = ?", webhookID).
		Where("status = 'WAITING'").Where("claimed_until IS NULL").Where("due_at IS NOT NULL")
	claims := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("min(claimed_until) AS due_at").Where("webhook_id = ?", webhookID)
	q := tx.NewUpdate().Model((*webhook.Webhook)(nil)).Where("id = ?", webhookID)
	if isFull {
		q = q.Set("due_at = (?)", claims.Where("claimed_until > ?", now))
	} else {
		q = q.Set("due_at = CASE WHEN (xid, seq) < (until_xid, until_seq) THEN ? ELSE (SELECT min(due_at) FROM (?) AS next) END",
			now, waiting.UnionAll(claims.Where("claimed_until IS NOT NULL")))
	}
	_, err := q.Exec(ctx)
	return err
}

// unclaim gives a delivery back that was not sent. It waits for a pause.
func (d *Dispatcher) unclaim(ctx context.Context, delivery *webhook.Delivery, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), statementTimeout)
	defer cancel()
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := d.Touch(ctx, tx, delivery.WebhookID); err != nil {
			return err
		}
		q := tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("claimed_until = NULL").Where("id = ?", delivery.ID).
			Where("claimed_until = ?", delivery.ClaimedUntil)
		if pause > 0 {
			q = q.Set("due_at = ?", d.now().Add(pause))
		}
		_, err := q.Exec(ctx)
		return err
	})
}
