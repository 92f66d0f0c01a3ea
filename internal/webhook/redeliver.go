package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// maxRedelivered and maxIDs bound one redelivery.
	maxRedelivered = 10_000
	maxIDs         = 1000
)

// Redelivery selects deliveries in exactly one way.
type Redelivery struct {
	IDs    []string
	Failed bool
	// From and To are a span of time; nil if it is not the way.
	From, To *time.Time
}

// Redeliver has deliveries sent again. Bodies of events are rendered again; batches of clicks stay. It returns their number, or
// NotFound, InvalidInput or Forbidden.
func (d *Dispatcher) Redeliver(
	ctx context.Context, m workspace.Membership, webhookID string, r Redelivery,
) (count int, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return 0, err
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	w, err := d.get(ctx, m, webhookID)
	if err != nil {
		return 0, err
	}
	events, err := d.eventsOf(ctx, m, w, r)
	if err != nil {
		return 0, err
	}
	err = d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = d.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		ids, err := r.deliveries(ctx, tx, w, events)
		if err != nil {
			return err
		}
		count = len(ids)
		for chunk := range slices.Chunk(ids, batch) {
			again := func(q *bun.UpdateQuery) *bun.UpdateQuery {
				return q.Set("body = CASE WHEN type = ? THEN body END", audit.LinkClicked).Where("id IN (?)", bun.In(chunk))
			}
			if err := d.requeue(ctx, tx, w, again); err != nil {
				return err
			}
		}
		return d.insertMissing(ctx, tx, w, events, &count)
	})
	if err != nil {
		return 0, db.NoRowsAs(d.Rows().NotFound(), err, "redelivering")
	}
	d.Wake()
	return count, nil
}

func (r Redelivery) check() error {
	ways := 0
	for _, given := range []bool{len(r.IDs) > 0, r.Failed, r.From != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return errs.New(errs.InvalidInput, "Choose deliveries in one way: deliveryIds, failed or range.")
	}
	if len(r.IDs) > maxIDs {
		return errs.New(errs.InvalidInput, "Give at most %d deliveries.", maxIDs).At("deliveryIds")
	}
	if r.From != nil && !r.From.Before(*r.To) {
		return errs.New(errs.InvalidInput, "The range must end after it begins.").At("range")
	}
	return nil
}

// eventsOf returns the events of the span that match the webhook; none for another way.
func (d *Dispatcher) eventsOf(
	ctx context.Context, m workspace.Membership, w *Webhook, r Redelivery,
) ([]*audit.Event, error) {
	if r.From == nil {
		return nil, nil
	}
	inside, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	events, err := audit.Between(inside, d.DB, m.ID(), *r.From, *r.To, logged(w.Types), maxRedelivered+1, d.Now())
	if err != nil {
		return nil, err
	}
	if len(events) > maxRedelivered {
		return nil, errs.New(errs.InvalidInput, "The range has more than %d events. Choose a shorter one.", maxRedelivered).
			At("range")
	}
	reading, err := d.Workspaces.ForDeliveries(ctx, m.ID())
	if err != nil {
		return nil, err
	}
	return d.tagged(ctx, reading, w, events)
}

// deliveries returns the ids of the existing deliveries that match.
func (r Redelivery) deliveries(
	ctx context.Context, tx bun.Tx, w *Webhook, events []*audit.Event,
) (ids []string, err error) {
	q := tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).Order("number").
		Limit(maxRedelivered)
	switch {
	case r.Failed:
		return ids, q.Where("status = ?", Failed).Scan(ctx, &ids)
	case r.From == nil:
		if err := q.Where("id IN (?)", bun.In(r.IDs)).Scan(ctx, &ids); err != nil {
			return nil, err
		}
		for _, wanted := range r.IDs {
			if !slices.Contains(ids, wanted) {
				return nil, errs.New(errs.NotFound, "The webhook has no such delivery.").At("deliveryIds")
			}
		}
		return ids, nil
	}
	for chunk := range slices.Chunk(events, batch) {
		var some []string
		find := tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
			Where("event_id IN (?)", bun.In(idsOf(chunk)))
		if err := find.Scan(ctx, &some); err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	return ids, nil
}

func idsOf(events []*audit.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// insertMissing stores deliveries of the events that have none, and adds their number to count.
func (d *Dispatcher) insertMissing(
	ctx context.Context, tx bun.Tx, w *Webhook, events []*audit.Event, count *int,
) error {
	now, last := d.now(), w.LastNumber
	var rows []*Delivery
	for _, e := range events {
		last++
		rows = append(rows, &Delivery{
			ID: id.New(id.Delivery), WorkspaceID: w.WorkspaceID, WebhookID: w.ID, EventID: e.ID, SubjectID: e.TargetID,
			Type: e.Action, Number: last, Status: Waiting, CreatedAt: now,
		})
	}
	if len(rows) > 0 {
		in := db.Insert{Rest: "ON CONFLICT (webhook_id, event_id) DO NOTHING"}
		if err := db.InsertRows(ctx, tx, in, rows); err != nil {
			return fmt.Errorf("adding deliveries: %w", err)
		}
		if err := release(ctx, tx, w.ID, now); err != nil {
			return err
		}
		*count = len(rows) // each event has a delivery now
	}
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("last_number = ?", last).Set("due_at = ?", now).
		Where("id = ?", w.ID).Exec(ctx)
	return err
}

// bodyOf returns the body of a delivery. One that is sent again is rendered and stored first.
func (d *Dispatcher) bodyOf(ctx context.Context, w *Webhook, one *Delivery) ([]byte, error) {
	if one.Body != nil {
		return []byte(*one.Body), nil
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return nil, err
	}
	text, err := d.renderAgain(ctx, m, w, one)
	if err != nil {
		return nil, err
	}
	_, err = d.DB.NewUpdate().Model((*Delivery)(nil)).Set("body = ?", text).Where("id = ?", one.ID).
		Where("claimed_at = ?", one.ClaimedAt).Exec(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("storing a body: %w", err)
	}
	return []byte(text), nil
}

func (d *Dispatcher) renderAgain(
	ctx context.Context, m workspace.Membership, w *Webhook, one *Delivery,
) (string, error) {
	inside, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return "", err
	}
	events, err := audit.Many(inside, d.DB, w.WorkspaceID, one.EventID)
	if err != nil {
		return "", err
	}
	if len(events) == 0 {
		return "", fmt.Errorf("the event %s is not in the log", one.EventID)
	}
	bodies, _, err := d.bodies(ctx, m, w, events)
	if err != nil {
		return "", err
	}
	return bodies[0], nil
}
