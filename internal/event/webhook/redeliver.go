package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
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

// Redeliver has deliveries rendered and sent again. It returns the number of deliveries, or
// NotFound, InvalidInput or Forbidden.
func (s *Store) Redeliver(
	ctx context.Context, m workspace.Membership, webhookID string, r Redelivery,
) (count int, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return 0, err
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	w, err := s.Get(ctx, m, webhookID)
	if err != nil {
		return 0, err
	}
	deliveries, err := s.deliveriesOf(ctx, w, r)
	if err != nil {
		return 0, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		if err := CheckReads(ctx, m, w); err != nil {
			return err
		}
		count, err = s.requeueSelected(ctx, tx, m, w, r, deliveries)
		return err
	})
	if err != nil {
		return 0, db.NoRowsAs(s.Rows().NotFound(), err, "redelivering")
	}
	return count, nil
}

func (r Redelivery) check() error {
	var checks []error
	ways := 0
	for _, given := range []bool{len(r.IDs) > 0, r.Failed, r.From != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		checks = append(checks, errs.New(errs.InvalidInput, "Give exactly one of deliveryIds, failed and range."))
	}
	if len(r.IDs) > maxIDs {
		checks = append(checks,
			errs.New(errs.InvalidInput, "deliveryIds must have from 1 to %d ids.", maxIDs).At("deliveryIds"))
	}
	if r.From != nil && !r.From.Before(*r.To) {
		checks = append(checks, errs.New(errs.InvalidInput, "range.to must be after range.from.").At("range"))
	}
	return errs.All(checks...)
}

// deliveriesOf returns deliveries of the events of the span that match the webhook; none for
// another way. The context is that of the workspace.
func (s *Store) deliveriesOf(ctx context.Context, w *Webhook, r Redelivery) ([]*Delivery, error) {
	if r.From == nil {
		return nil, nil
	}
	head, err := audit.Horizon(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	events := s.Select(w, audit.LogRequest{UpTo: head, Limit: maxRedelivered + 1}).
		Where("created_at >= ?", db.Instant(*r.From)).Where("created_at < ?", db.Instant(*r.To))
	deliveries, _, err := s.OfEvents(ctx, w, events)
	if err != nil {
		return nil, err
	}
	if len(deliveries) > maxRedelivered {
		return nil, errs.New(errs.InvalidInput, "range must have at most %d events. Choose a shorter one.",
			maxRedelivered).
			At("range")
	}
	return deliveries, nil
}

// requeueSelected has the selected deliveries of a locked webhook wait for their first attempt.
// Events of the span that have no delivery get one. It returns the number of deliveries, NotFound
// for unknown ones, or Forbidden for deliveries that the caller may not read.
func (s *Store) requeueSelected(
	ctx context.Context, tx bun.Tx, m workspace.Membership, w *Webhook, r Redelivery, ofEvents []*Delivery,
) (int, error) {
	if err := s.Add(ctx, tx, ofEvents); err != nil {
		return 0, err
	}
	q := tx.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID)
	switch {
	case r.Failed:
		q = q.Where("status = ?", Failed).Order("number").Limit(maxRedelivered)
	case r.From != nil:
		eventIDs := make([]string, 0, len(ofEvents))
		for _, d := range ofEvents {
			eventIDs = append(eventIDs, d.EventID)
		}
		q = q.Where("event_id IN (?)", bun.In(eventIDs))
	default:
		q = q.Where("id IN (?)", bun.In(r.IDs))
	}
	var ids []string
	if err := q.Scan(ctx, &ids); err != nil {
		return 0, err
	}
	if slices.ContainsFunc(r.IDs, func(wanted string) bool { return !slices.Contains(ids, wanted) }) {
		return 0, errs.New(errs.NotFound, "The webhook has no such delivery. Deliveries are stored for "+
			"30 days: use ids of Webhook.deliveries.").At("deliveryIds")
	}
	for chunk := range slices.Chunk(ids, Batch) {
		selected := func(q *bun.SelectQuery) *bun.SelectQuery { return q.Where("id IN (?)", bun.In(chunk)) }
		if err := checkReadsDeliveries(ctx, tx, m, w, selected); err != nil {
			return 0, err
		}
		again := func(q *bun.UpdateQuery) *bun.UpdateQuery { return q.Where("id IN (?)", bun.In(chunk)) }
		if err := requeue(ctx, tx, w, again); err != nil {
			return 0, err
		}
	}
	if err := s.Release(ctx, tx, w.ID); err != nil {
		return 0, err
	}
	return len(ids), s.Touch(ctx, tx, w.ID)
}
