package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
)

// schedule has the pauses before the attempts of a delivery, each varied by a tenth.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// The bounds of a webhook's concurrency.
const initialConcurrency, maxConcurrency = 2, 8

// record stores the result of an attempt, and disables the webhook if its receiver is gone.
func (d *Dispatcher) record(ctx context.Context, w *Webhook, delivery *Delivery, o outcome) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	disabled := false
	err := d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		disabled = false
		q := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", d.now())
		switch {
		case o.isSlow():
			q = q.Set("concurrency = 1")
		case o.succeeded():
			q = q.Set("concurrency = CASE WHEN concurrency < ? THEN 2 * concurrency ELSE concurrency END", maxConcurrency)
		}
		if o.succeeded() {
			q = q.Set("failing_since = NULL")
		} else {
			q = q.Set("failing_since = coalesce(failing_since, ?)", o.SentAt)
		}
		if _, err := q.Where("id = ?", w.ID).Exec(ctx); err != nil {
			return err
		}
		if lost, err := d.finish(ctx, tx, delivery, o); err != nil || lost {
			return err
		}
		if delivery.Tries == 0 {
			if err := release(ctx, tx, w.ID, d.now(), delivery.SubjectID); err != nil {
				return err
			}
		}
		if err := storeAttempt(ctx, tx, delivery, o.Attempt); err != nil {
			return err
		}
		if o.succeeded() {
			return nil
		}
		hopeless, err := d.isHopeless(ctx, tx, delivery, o)
		if err == nil && hopeless {
			disabled, err = d.disable(ctx, tx, w, nil, new(receiverFailed))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("recording an attempt: %w", err)
	}
	if disabled {
		return d.announce(ctx)
	}
	return nil
}

// finish stores the state of a delivery after an attempt. It reports whether the node had lost the claim:
// then another node sends it, and its attempt counts.
func (d *Dispatcher) finish(ctx context.Context, tx bun.Tx, delivery *Delivery, o outcome) (lost bool, err error) {
	tries := delivery.Tries + 1
	status, dueAt := Delivered, (*time.Time)(nil)
	switch {
	case o.succeeded():
	case tries >= len(schedule):
		status = Failed
	default:
		pause := max(vary(schedule[tries]), o.retryAfter)
		status, dueAt = Waiting, new(db.Instant(d.now().Add(pause)))
	}
	q := tx.NewUpdate().Model((*Delivery)(nil))
	if status != Waiting { // the body, which may have data of a link that is purged later, has no further use
		q = q.Set("body = NULL")
	}
	n, err := db.Affected(q.Set("status = ?", status).Set("tries = ?", tries).Set("due_at = ?", dueAt).
		Set("claimed_until = NULL").Set("first_tried_at = coalesce(first_tried_at, ?)", o.SentAt).
		Where("id = ?", delivery.ID).Where("status = 'WAITING'").Where("claimed_until = ?", delivery.ClaimedUntil).Exec(ctx))
	return n == 0, err
}

// vary returns a duration that differs by up to a tenth.
func vary(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// storeAttempt stores an attempt, and removes those beyond maxAttempts.
func storeAttempt(ctx context.Context, tx bun.Tx, delivery *Delivery, a Attempt) error {
	a.DeliveryID = delivery.ID
	last := 0
	err := tx.NewSelect().Model((*Attempt)(nil)).ColumnExpr("coalesce(max(number), 0)").
		Where("delivery_id = ?", delivery.ID).Scan(ctx, &last)
	if err != nil {
		return err
	}
	a.Number = last + 1
	if _, err := tx.NewInsert().Model(&a).Exec(ctx); err != nil || a.Number <= maxAttempts {
		return err
	}
	_, err = tx.NewDelete().Model((*Attempt)(nil)).Where("delivery_id = ?", delivery.ID).
		Where("number <= ?", a.Number-maxAttempts).Exec(ctx)
	return err
}

// isHopeless reports whether a failed attempt disables the webhook: the receiver is gone, or a delivery has
// failed for good and none has succeeded since its first attempt.
func (d *Dispatcher) isHopeless(ctx context.Context, tx bun.Tx, delivery *Delivery, o outcome) (bool, error) {
	if o.isGone() {
		return true, nil
	}
	if delivery.Tries+1 < len(schedule) || delivery.FirstTriedAt == nil {
		return false, nil
	}
	return tx.NewSelect().Model((*Webhook)(nil)).Where("id = ?", delivery.WebhookID).
		Where("failing_since <= ?", *delivery.FirstTriedAt).Exists(ctx)
}

// disable disables a webhook that is not disabled, and writes the event. With a notice, announce sends an email about
// it. It reports whether it did.
func (s *Store) disable(ctx context.Context, tx bun.Tx, w *Webhook, details audit.Details, n *notice) (bool, error) {
	changed, err := db.Affected(tx.NewUpdate().Model((*Webhook)(nil)).Set("status = ?", Disabled).Set("due_at = NULL").
		Set("notice = ?", n).Where("id = ?", w.ID).Where("status <> ?", Disabled).Exec(ctx))
	if err != nil || changed == 0 {
		return false, err
	}
	after := *w
	after.Status = Disabled
	return true, audit.Write(ctx, tx, audit.New(w.WorkspaceID, "", audit.WebhookDisabled, w.ID, details, s.now()).
		WithChanges(audit.Compare(w.fields(), after.fields())))
}
