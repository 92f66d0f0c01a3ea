package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// maxDoubted bounds the webhooks that a run of doubt repairs.
const maxDoubted = 500

// longestPause is the longest time between two attempts of a delivery.
var longestPause = max(schedule[len(schedule)-1]*11/10, maxRetryAfter)

// latest are the latest instants that are believed.
type latest struct{ now, claimed, first, retried time.Time }

func latestAt(now time.Time) latest {
	return latest{
		now: db.Latest(now, 0), claimed: db.Latest(now, claimDuration), first: db.Latest(now, pauseAfterError),
		retried: db.Latest(now, longestPause),
	}
}

// doubt has webhooks send again whose instants a node has set by a clock that was ahead: claims,
// the instants of attempts, and when to look at the webhook. An attempt may be due a day ahead, so a
// retry of a failed delivery is doubted only beyond that, or if its first attempt lies ahead.
func (d *Dispatcher) doubt(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	far := latestAt(d.now())
	deliveries := func() *bun.SelectQuery {
		return d.DB.NewSelect().Model((*webhook.Delivery)(nil)).Column("webhook_id")
	}
	claimed := deliveries().Where("claimed_until > ?", far.claimed)
	first := deliveries().Where("status = 'WAITING'").Where("tries = 0").Where("due_at > ?", far.first)
	late := d.DB.NewSelect().Model((*webhook.Webhook)(nil)).Column("id").Where("due_at > ?", far.now).
		Where("due_at > ?1 OR failing_since > ?0 OR due_at > ?2 AND (xid, seq) < (until_xid, until_seq)", far.now,
			far.retried, far.claimed)
	var ids []string
	err := d.DB.NewSelect().TableExpr("(?) AS doubted", claimed.Union(first).Union(late)).
		ColumnExpr("DISTINCT webhook_id").Limit(maxDoubted).Scan(ctx, &ids)
	if err != nil {
		return fmt.Errorf("looking for webhooks of a clock that was ahead: %w", err)
	}
	for _, webhookID := range ids {
		if err := d.believe(ctx, webhookID, far); err != nil {
			return fmt.Errorf("repairing the instants of a webhook: %w", err)
		}
		db.WarnOfClock(ctx, d.Log, "the next attempt of a webhook", "webhook", webhookID)
	}
	if len(ids) > 0 {
		d.Wake()
	}
	return nil
}

// believe sets the instants of a webhook that are not believed to now.
func (d *Dispatcher) believe(ctx context.Context, webhookID string, far latest) error {
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := d.now()
		_, err := tx.NewUpdate().Model((*webhook.Webhook)(nil)).Set("due_at = ?", now).
			Set("failing_since = CASE WHEN failing_since > ? THEN ? ELSE failing_since END", far.now, now).
			Where("id = ?", webhookID).Exec(ctx) // locked before its deliveries, as claim does
		if err != nil {
			return err
		}
		deliveries := func() *bun.UpdateQuery {
			return tx.NewUpdate().Model((*webhook.Delivery)(nil)).Where("webhook_id = ?", webhookID)
		}
		_, err = deliveries().Set("claimed_until = NULL").Where("claimed_until > ?", far.claimed).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = deliveries().Set("due_at = ?", now).
			Set("first_tried_at = CASE WHEN first_tried_at > ? THEN ? ELSE first_tried_at END", far.now, now).
			Where("status = 'WAITING'").
			Where("due_at > ?0 AND (tries = 0 OR due_at > ?1 OR first_tried_at > ?2)", far.first, far.retried, far.now).
			Exec(ctx)
		return err
	})
}
