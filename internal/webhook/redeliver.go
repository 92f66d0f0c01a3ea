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

// Redeliver has deliveries rendered and sent again. It returns the number of deliveries, or NotFound, InvalidInput or
// Forbidden.
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
		if err := checkReads(ctx, m, w); err != nil {
			return err
		}
		count, err = d.requeueSelected(ctx, tx, m, w, r, events)
		return err
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
		return errs.New(errs.InvalidInput, "Give exactly one of deliveryIds, failed and range.")
	}
	if len(r.IDs) > maxIDs {
		return errs.New(errs.InvalidInput, "deliveryIds must have from 1 to %d ids.", maxIDs).At("deliveryIds")
	}
	if r.From != nil && !r.From.Before(*r.To) {
		return errs.New(errs.InvalidInput, "range.to must be after range.from.").At("range")
	}
	return nil
}

// eventsOf returns the events of the span that match the webhook; none for another way. The context is that of
// the workspace.
func (d *Dispatcher) eventsOf(
	ctx context.Context, m workspace.Membership, w *Webhook, r Redelivery,
) ([]*audit.Event, error) {
	if r.From == nil {
		return nil, nil
	}
	events, err := audit.Between(ctx, d.DB, m.ID(), *r.From, *r.To, logged(w.Types), maxRedelivered+1, d.Now())
	if err != nil {
		return nil, err
	}
	if len(events) > maxRedelivered {
		return nil, errs.New(errs.InvalidInput, "range must have at most %d events. Choose a shorter one.", maxRedelivered).
			At("range")
	}
	reading, err := d.Workspaces.ForDeliveries(ctx, m.ID())
	if err != nil {
		return nil, err
	}
	return d.tagged(ctx, reading, w, events)
}

// requeueSelected has the selected deliveries of a locked webhook wait for their first attempt. Events of the span
// that have no delivery get one. It returns the number of deliveries.
func (d *Dispatcher) requeueSelected(
	ctx context.Context, tx bun.Tx, m workspace.Membership, w *Webhook, r Redelivery, events []*audit.Event,
) (int, error) {
	ids, err := r.find(ctx, tx, w, events)
	if err != nil {
		return 0, err
	}
	if err := requeueByID(ctx, tx, m, w, ids); err != nil {
		return 0, err
	}
	count := len(ids)
	if r.From != nil {
		if err := d.insertMissing(ctx, tx, w, events); err != nil {
			return 0, err
		}
		count = len(events)
	}
	if err := release(ctx, tx, w.ID, d.now()); err != nil {
		return 0, err
	}
	return count, d.touch(ctx, tx, w.ID)
}

// find returns the ids of the selected deliveries.
func (r Redelivery) find(ctx context.Context, tx bun.Tx, w *Webhook, events []*audit.Event) ([]string, error) {
	switch {
	case r.Failed:
		return failedIDs(ctx, tx, w)
	case r.From != nil:
		return idsOfEvents(ctx, tx, w, events)
	}
	return r.knownIDs(ctx, tx, w)
}

// requeueByID has deliveries wait for their first attempt, before which they are rendered. It returns
// Forbidden for deliveries that the caller may not read.
func requeueByID(ctx context.Context, tx bun.Tx, m workspace.Membership, w *Webhook, ids []string) error {
	for chunk := range slices.Chunk(ids, batch) {
		selected := func(q *bun.SelectQuery) *bun.SelectQuery { return q.Where("id IN (?)", bun.In(chunk)) }
		if err := checkReadsDeliveries(ctx, tx, m, w, selected); err != nil {
			return err
		}
		again := func(q *bun.UpdateQuery) *bun.UpdateQuery {
			return q.Set("body = NULL").Where("id IN (?)", bun.In(chunk))
		}
		if err := requeue(ctx, tx, w, again); err != nil {
			return err
		}
	}
	return nil
}

// failedIDs returns the ids of the failed deliveries of a webhook, oldest first.
func failedIDs(ctx context.Context, tx bun.Tx, w *Webhook) (ids []string, err error) {
	err = tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
		Where("status = ?", Failed).Order("number").Limit(maxRedelivered).Scan(ctx, &ids)
	return ids, err
}

// knownIDs returns the wanted ids. It returns NotFound if the webhook does not have all of them.
func (r Redelivery) knownIDs(ctx context.Context, tx bun.Tx, w *Webhook) (ids []string, err error) {
	err = tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
		Where("id IN (?)", bun.In(r.IDs)).Order("number").Scan(ctx, &ids)
	if err != nil {
		return nil, err
	}
	for _, wanted := range r.IDs {
		if !slices.Contains(ids, wanted) {
			return nil, errs.New(errs.NotFound, "The webhook has no such delivery. Deliveries are stored for "+
				"30 days: use ids of Webhook.deliveries.").At("deliveryIds")
		}
	}
	return ids, nil
}

// idsOfEvents returns the ids of the deliveries of events.
func idsOfEvents(ctx context.Context, tx bun.Tx, w *Webhook, events []*audit.Event) (ids []string, err error) {
	for chunk := range slices.Chunk(events, batch) {
		var eventIDs, found []string
		for _, e := range chunk {
			eventIDs = append(eventIDs, e.ID)
		}
		err := tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
			Where("event_id IN (?)", bun.In(eventIDs)).Scan(ctx, &found)
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	return ids, nil
}

// insertMissing stores deliveries of the events that have none.
func (d *Dispatcher) insertMissing(ctx context.Context, tx bun.Tx, w *Webhook, events []*audit.Event) error {
	now := d.now()
	rows := make([]*Delivery, 0, len(events))
	for i, e := range events {
		rows = append(rows, &Delivery{
			ID: id.New(id.Delivery), WorkspaceID: w.WorkspaceID, WebhookID: w.ID, EventID: e.ID, SubjectID: e.TargetID,
			Type: e.Action, Number: w.LastNumber + int64(i) + 1, Status: Waiting, CreatedAt: now,
		})
	}
	in := db.Insert{Rest: "ON CONFLICT (webhook_id, event_id) DO NOTHING"}
	if err := db.InsertRows(ctx, tx, in, rows); err != nil {
		return fmt.Errorf("adding deliveries: %w", err)
	}
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("last_number = ?", w.LastNumber+int64(len(rows))).
		Where("id = ?", w.ID).Exec(ctx)
	return err
}

// bodyOf returns the body of a delivery. One that is sent again is rendered and stored first.
func (d *Dispatcher) bodyOf(ctx context.Context, w *Webhook, delivery *Delivery) ([]byte, error) {
	if delivery.Body != nil {
		return []byte(*delivery.Body), nil
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return nil, err
	}
	text, err := d.renderAgain(ctx, m, w, delivery)
	if err != nil {
		return nil, err
	}
	_, err = d.DB.NewUpdate().Model((*Delivery)(nil)).Set("body = ?", text).Where("id = ?", delivery.ID).
		Where("claimed_until = ?", delivery.ClaimedUntil).Exec(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("storing a body: %w", err)
	}
	return []byte(text), nil
}

func (d *Dispatcher) renderAgain(
	ctx context.Context, m workspace.Membership, w *Webhook, delivery *Delivery,
) (string, error) {
	if delivery.Type == audit.LinkClicked {
		return d.renderClicksAgain(ctx, m, w, delivery)
	}
	inside, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return "", err
	}
	events, err := audit.Many(inside, d.DB, w.WorkspaceID, delivery.EventID)
	if err != nil {
		return "", err
	}
	if len(events) == 0 {
		return "", fmt.Errorf("the event %s is not in the log", delivery.EventID)
	}
	bodies, _, err := d.bodies(ctx, m, w, events)
	if err != nil {
		return "", err
	}
	return bodies[0], nil
}
