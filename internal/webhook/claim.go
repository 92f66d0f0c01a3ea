package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
)

// claimDuration is how long a node may take to send a delivery before others may send it.
const claimDuration = 2 * time.Minute

// schedule has the pauses before the attempts of a delivery, each varied by a tenth.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// due returns webhooks with due deliveries, the longest due first, whose hosts have free connections. It
// leaves out those of ended API keys and deleted workspaces.
func (d *Dispatcher) due(ctx context.Context) (rows []*Webhook, err error) {
	hosts, resting := d.busy()
	q := d.DB.NewSelect().Model(&rows).Column("id", "host").Where("due_at <= ?", d.now()).Where("status = ?", Active)
	q = withoutEnded(q, d.now())
	if len(hosts) > 0 {
		q = q.Where("host NOT IN (?)", bun.In(hosts))
	}
	if len(resting) > 0 {
		q = q.Where("id NOT IN (?)", bun.In(resting))
	}
	if err := q.Order("due_at").Limit(maxDue).Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("looking up due webhooks: %w", err)
	}
	return rows, nil
}

// withoutEnded leaves out webhooks of API keys that have ended, and of deleted workspaces.
func withoutEnded(q *bun.SelectQuery, now time.Time) *bun.SelectQuery {
	return q.Where(`NOT EXISTS (SELECT 1 FROM api_keys AS api_key WHERE api_key.id = webhook.created_by
			AND (api_key.revoked_at IS NOT NULL OR api_key.expires_at <= ?))`, now).
		Where(`NOT EXISTS (SELECT 1 FROM workspaces WHERE workspaces.id = webhook.workspace_id
			AND workspaces.deleted_at IS NOT NULL)`)
}

// claimed are deliveries that this node sends, and their webhook as it is now.
type claimed struct {
	webhook    *Webhook
	deliveries []*Delivery
}

// claim takes up to limit due deliveries of a webhook for this node. The lock of the webhook's row keeps
// all nodes together below maxInFlight.
func (d *Dispatcher) claim(ctx context.Context, webhookID string, limit int) (c claimed, err error) {
	err = d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		c = claimed{webhook: &Webhook{}}
		now := d.now()
		q := tx.NewSelect().Model(c.webhook).Where("id = ?", webhookID).Where("status = ?", Active)
		if err := d.DB.SkipLocked(withoutEnded(q, now)).Scan(ctx); err != nil {
			return err
		}
		inFlight, err := tx.NewSelect().Model((*Delivery)(nil)).Where("webhook_id = ?", webhookID).
			Where("claimed_at > ?", now).Count(ctx)
		if err != nil {
			return err
		}
		limit := max(0, min(limit, maxInFlight-int(inFlight)))
		err = tx.NewSelect().Model(&c.deliveries).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'").
			Where("due_at <= ?", now).Where("claimed_at IS NULL OR claimed_at <= ?", now).Order("due_at", "number").
			Limit(int64(limit)).Scan(ctx)
		if err != nil {
			return err
		}
		if err := d.mark(ctx, tx, &c, now); err != nil {
			return err
		}
		return d.setDue(ctx, tx, webhookID, now, len(c.deliveries) == limit && int(inFlight)+limit < maxInFlight)
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
	for _, one := range c.deliveries {
		one.ClaimedAt = &until
		ids = append(ids, one.ID)
	}
	_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("claimed_at = ?", until).Where("id IN (?)", bun.In(ids)).
		Exec(ctx)
	return err
}

// setDue stores when the webhook has to be looked at again: at once if more deliveries may be due,
// otherwise when the next one is due or a claim ends. Recorded attempts make it due, too.
func (d *Dispatcher) setDue(ctx context.Context, tx bun.Tx, webhookID string, now time.Time, more bool) error {
	next := &now
	if !more {
		var dueAt, endsAt []time.Time
		waiting := tx.NewSelect().Model((*Delivery)(nil)).Where("webhook_id = ?", webhookID).Where("status = 'WAITING'")
		err := waiting.Column("due_at").Where("due_at > ?", now).Order("due_at").Limit(1).Scan(ctx, &dueAt)
		if err != nil {
			return err
		}
		err = tx.NewSelect().Model((*Delivery)(nil)).Column("claimed_at").Where("webhook_id = ?", webhookID).
			Where("claimed_at > ?", now).Order("claimed_at").Limit(1).Scan(ctx, &endsAt)
		if err != nil {
			return err
		}
		next = earliest(append(dueAt, endsAt...))
	}
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", next).Where("id = ?", webhookID).Exec(ctx)
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
func (d *Dispatcher) unclaim(ctx context.Context, one *Delivery) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), statementTimeout)
	defer cancel()
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := d.touch(ctx, tx, one.WebhookID); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("claimed_at = NULL").Where("id = ?", one.ID).
			Where("claimed_at = ?", one.ClaimedAt).Exec(ctx)
		return err
	})
}

// touch makes a webhook due, and locks it before its deliveries, as claim does.
func (d *Dispatcher) touch(ctx context.Context, tx bun.Tx, webhookID string) error {
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", d.now()).Where("id = ?", webhookID).Exec(ctx)
	return err
}

// record stores the result of an attempt, and disables the webhook if its receiver is gone.
func (d *Dispatcher) record(ctx context.Context, w *Webhook, one *Delivery, o outcome) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	disabled := false
	err := d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		disabled = false
		failingAt := bun.SafeQuery("NULL")
		if !o.succeeded() {
			failingAt = bun.SafeQuery("coalesce(failing_at, ?)", o.SentAt)
		}
		q := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", d.now()).Set("failing_at = ?", failingAt)
		if _, err := q.Where("id = ?", w.ID).Exec(ctx); err != nil {
			return err
		}
		if lost, err := d.finish(ctx, tx, one, o); err != nil || lost {
			return err
		}
		if one.Tries == 0 {
			if err := release(ctx, tx, w.ID, d.now(), one.SubjectID); err != nil {
				return err
			}
		}
		if err := storeAttempt(ctx, tx, one, o.Attempt); err != nil {
			return err
		}
		if o.succeeded() {
			return nil
		}
		hopeless, err := d.isHopeless(ctx, tx, one, o)
		if err == nil && hopeless {
			disabled, err = d.disable(ctx, tx, w, nil)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("recording an attempt: %w", err)
	}
	if disabled {
		d.announce(ctx, w, receiverFailed)
	}
	return nil
}

// finish stores the state of a delivery after an attempt. It reports whether the node had lost the claim:
// then another node sends it, and its attempt counts.
func (d *Dispatcher) finish(ctx context.Context, tx bun.Tx, one *Delivery, o outcome) (lost bool, err error) {
	tries := one.Tries + 1
	status, dueAt := Delivered, (*time.Time)(nil)
	switch {
	case o.succeeded():
	case tries >= len(schedule):
		status = Failed
	default:
		pause := max(vary(schedule[tries]), o.retryAfter)
		status, dueAt = Waiting, new(db.Instant(d.now().Add(pause)))
	}
	n, err := db.Affected(tx.NewUpdate().Model((*Delivery)(nil)).Set("status = ?", status).Set("tries = ?", tries).
		Set("due_at = ?", dueAt).Set("claimed_at = NULL").Set("tried_at = coalesce(tried_at, ?)", o.SentAt).
		Where("id = ?", one.ID).Where("status = 'WAITING'").Where("claimed_at = ?", one.ClaimedAt).Exec(ctx))
	return n == 0, err
}

// vary returns a duration that differs by up to a tenth.
func vary(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// storeAttempt stores an attempt, and removes those beyond maxAttempts.
func storeAttempt(ctx context.Context, tx bun.Tx, one *Delivery, a Attempt) error {
	a.DeliveryID = one.ID
	last := 0
	err := tx.NewSelect().Model((*Attempt)(nil)).ColumnExpr("coalesce(max(number), 0)").Where("delivery_id = ?", one.ID).
		Scan(ctx, &last)
	if err != nil {
		return err
	}
	a.Number = last + 1
	if _, err := tx.NewInsert().Model(&a).Exec(ctx); err != nil || a.Number <= maxAttempts {
		return err
	}
	_, err = tx.NewDelete().Model((*Attempt)(nil)).Where("delivery_id = ?", one.ID).
		Where("number <= ?", a.Number-maxAttempts).Exec(ctx)
	return err
}

// isHopeless reports whether a failed attempt disables the webhook: the receiver is gone, or a delivery has
// failed for good and none has succeeded since its first attempt.
func (d *Dispatcher) isHopeless(ctx context.Context, tx bun.Tx, one *Delivery, o outcome) (bool, error) {
	if o.isGone() {
		return true, nil
	}
	if one.Tries+1 < len(schedule) || one.TriedAt == nil {
		return false, nil
	}
	return tx.NewSelect().Model((*Webhook)(nil)).Where("id = ?", one.WebhookID).
		Where("failing_at <= ?", *one.TriedAt).Exists(ctx)
}

// disable disables a webhook that is not disabled, and writes the event. It reports whether it did.
func (s *Store) disable(ctx context.Context, tx bun.Tx, w *Webhook, details audit.Details) (bool, error) {
	n, err := db.Affected(tx.NewUpdate().Model((*Webhook)(nil)).Set("status = ?", Disabled).Set("due_at = NULL").
		Where("id = ?", w.ID).Where("status <> ?", Disabled).Exec(ctx))
	if err != nil || n == 0 {
		return false, err
	}
	after := *w
	after.Status = Disabled
	return true, audit.Write(ctx, tx, audit.New(w.WorkspaceID, "", audit.WebhookDisabled, w.ID, details, s.now()).
		Changing(audit.Compare(w.fields(), after.fields())))
}
