package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// schedule has the pauses before the attempts of a delivery, each varied by a tenth.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// maxConcurrency bounds the concurrency of a webhook.
const maxConcurrency = 8

// record stores the result of an attempt, and disables the webhook if isHopeless.
func (d *Dispatcher) record(ctx context.Context, w *webhook.Webhook, delivery *webhook.Delivery, o outcome) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	hopeless := false
	err := d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		w := &webhook.Webhook{ID: w.ID} // locked before its deliveries, as claim does
		if err := d.DB.ForChange(tx.NewSelect().Model(w).WherePK()).Scan(ctx); errors.Is(err, sql.ErrNoRows) {
			return nil // deleted
		} else if err != nil {
			return err
		}
		if lost, err := d.finish(ctx, tx, delivery, o); err != nil || lost {
			return err
		}
		if delivery.Tries == 0 {
			if err := d.Release(ctx, tx, w.ID, delivery.SubjectID); err != nil {
				return err
			}
		}
		if err := storeAttempt(ctx, tx, delivery, o.Attempt); err != nil {
			return err
		}
		switch {
		case o.isSlow():
			w.Concurrency = 1
		case o.succeeded():
			w.Concurrency = min(2*w.Concurrency, maxConcurrency)
		}
		if o.succeeded() {
			w.FailingSince = nil
		} else if w.FailingSince == nil {
			w.FailingSince = &o.SentAt
		}
		q := tx.NewUpdate().Model(w).WherePK().Set("concurrency = ?", w.Concurrency).
			Set("failing_since = ?", w.FailingSince)
		if _, err := setDue(tx, q, w.ID, d.now(), false, w.IsBehind()).Exec(ctx); err != nil || o.succeeded() {
			return err
		}
		var err error
		if hopeless, err = d.isHopeless(ctx, tx, delivery, o); err == nil && hopeless {
			err = d.Disable(ctx, tx, w, nil, new(webhook.ReceiverFailed))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("recording an attempt: %w", err)
	}
	if hopeless {
		poll.Signal(d.disabled)
	}
	return nil
}

// finish stores the state of a delivery after an attempt. It reports whether the node had lost the
// claim: then another node sends it, and its attempt counts.
func (d *Dispatcher) finish(
	ctx context.Context, tx bun.Tx, delivery *webhook.Delivery, o outcome,
) (lost bool, err error) {
	tries := delivery.Tries + 1
	status, dueAt := webhook.Delivered, (*time.Time)(nil)
	switch {
	case o.succeeded():
	case tries >= len(schedule):
		status = webhook.Failed
	default:
		pause := max(vary(schedule[tries]), o.retryAfter)
		status, dueAt = webhook.Waiting, new(db.Instant(d.now().Add(pause)))
	}
	n, err := db.Affected(tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("status = ?", status).
		Set("tries = ?", tries).Set("due_at = ?", dueAt).
		Set("claimed_until = NULL").Set("first_tried_at = coalesce(first_tried_at, ?)", o.SentAt).
		Where("id = ?", delivery.ID).Where("status = 'WAITING'").Where("claimed_until = ?", delivery.ClaimedUntil).
		Exec(ctx))
	return n == 0, err
}

// vary returns a duration that differs by up to a tenth.
func vary(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// maxAttempts is how many attempts of a delivery are stored.
const maxAttempts = 20

// storeAttempt stores an attempt, and removes those beyond maxAttempts.
func storeAttempt(ctx context.Context, tx bun.Tx, delivery *webhook.Delivery, a webhook.Attempt) error {
	a.DeliveryID = delivery.ID
	_, err := tx.NewInsert().Model(&a).
		Value("number", "(SELECT coalesce(max(number), 0) + 1 FROM webhook_attempts WHERE delivery_id = ?)",
			delivery.ID).
		Returning("number").Exec(ctx)
	if err != nil || a.Number <= maxAttempts {
		return err
	}
	_, err = tx.NewDelete().Model((*webhook.Attempt)(nil)).Where("delivery_id = ?", delivery.ID).
		Where("number <= ?", a.Number-maxAttempts).Exec(ctx)
	return err
}
