package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// claimDuration is how long a node may take to send a delivery before others may send it.
const claimDuration = 2 * time.Minute

// claim creates deliveries of new events of a webhook, and takes up to limit due deliveries for
// this node. The lock of the webhook's row bounds the deliveries in flight on all nodes to its
// concurrency. It returns none if another node has the lock.
func (d *Dispatcher) claim(
	ctx context.Context, webhookID string, limit int64,
) (*webhook.Webhook, []*webhook.Delivery, error) {
	w, deliveries := &webhook.Webhook{}, []*webhook.Delivery{}
	err := d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		*w, deliveries = webhook.Webhook{}, nil
		now := d.now()
		active := d.WithoutEnded(tx.NewSelect().Model(w).Where("webhook.id = ?", webhookID).
			Where("status = ?", webhook.Active))
		if err := d.DB.SkipLocked(active).Scan(ctx); err != nil {
			return err
		}
		inFlight, err := tx.NewSelect().Model((*webhook.Delivery)(nil)).Where("webhook_id = ?", webhookID).
			Where("claimed_until > ?", now).Count(ctx)
		if err != nil {
			return err
		}
		room := min(limit, w.Concurrency-inFlight)
		if room <= 0 { // bun omits a LIMIT of 0
			_, err := setDue(tx, tx.NewUpdate().Model(w).WherePK(), w.ID, now, true, false).Exec(ctx)
			return err
		}
		hasRoom, err := d.refill(ctx, tx, w)
		if err != nil {
			return err
		}
		now = d.now() // when new deliveries are due
		err = tx.NewSelect().Model(&deliveries).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'").
			Where("due_at <= ?", now).Where("claimed_until IS NULL OR claimed_until <= ?", now).
			Order("due_at", "number").
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
			_, err = tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("claimed_until = ?", until).
				Where("id IN (?)", bun.In(ids)).Exec(ctx)
			if err != nil {
				return err
			}
		}
		q := tx.NewUpdate().Model(w).WherePK().Set("xid = ?", w.XID).Set("seq = ?", w.Seq)
		isFull := inFlight+int64(len(deliveries)) >= w.Concurrency
		_, err = setDue(tx, q, webhookID, now, isFull, hasRoom && w.IsBehind()).Exec(ctx)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) { // another node has it, or it is not active any more
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("claiming deliveries: %w", err)
	}
	return w, deliveries, nil
}

// setDue has an update of a locked webhook store when it has to be looked at again: at once if it
// has events to read, when the next delivery is due, and when a claim ends. While as many requests
// are in flight as may be, it waits for the end of one: record calls setDue, too.
func setDue(tx bun.Tx, q *bun.UpdateQuery, webhookID string, now time.Time, isFull, hasEvents bool) *bun.UpdateQuery {
	claims := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("min(claimed_until) AS due_at").
		Where("webhook_id = ?", webhookID)
	if isFull {
		return q.Set("due_at = (?)", claims.Where("claimed_until > ?", now))
	}
	if hasEvents {
		return q.Set("due_at = ?", now)
	}
	waiting := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("min(due_at) AS due_at").
		Where("webhook_id = ?", webhookID).
		Where("status = 'WAITING'").Where("claimed_until IS NULL").Where("due_at IS NOT NULL")
	// Deliveries that are due already take turns with other webhooks.
	return q.Set("due_at = (SELECT CASE WHEN min(due_at) < ?0 THEN ?0 ELSE min(due_at) END FROM (?1) AS next)", now,
		waiting.UnionAll(claims.Where("claimed_until IS NOT NULL")))
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
