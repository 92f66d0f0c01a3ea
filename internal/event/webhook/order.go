package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"
)

// requeue makes the deliveries of a locked webhook that match wait for their first attempt. They
// are due when Release has been called.
func requeue(ctx context.Context, tx bun.Tx, w *Webhook, match func(*bun.UpdateQuery) *bun.UpdateQuery) error {
	q := tx.NewUpdate().Model((*Delivery)(nil)).Set("status = ?", Waiting).Set("tries = 0").
		Set("first_tried_at = NULL").
		Set("due_at = NULL").Set("claimed_until = NULL").Where("webhook_id = ?", w.ID)
	if _, err := match(q).Exec(ctx); err != nil {
		return fmt.Errorf("starting deliveries again: %w", err)
	}
	return nil
}

// Release makes, of each subject, the first delivery due that waits for its first attempt. Without
// subjects it does so for all.
func (s *Store) Release(ctx context.Context, tx bun.Tx, webhookID string, subjects ...string) error {
	first := tx.NewSelect().TableExpr("webhook_deliveries AS first").ColumnExpr("first.subject_id, min(first.number)").
		Where("first.webhook_id = ?", webhookID).Where("first.status = 'WAITING'").Where("first.tries = 0").
		Group("first.subject_id")
	q := tx.NewUpdate().Model((*Delivery)(nil)).Set("due_at = ?", s.now()).Where("webhook_id = ?", webhookID).
		Where("status = 'WAITING'").Where("tries = 0").Where("due_at IS NULL")
	if len(subjects) > 0 {
		first = first.Where("first.subject_id IN (?)", bun.In(subjects))
		q = q.Where("subject_id IN (?)", bun.In(subjects))
	}
	// IS TRUE has PostgreSQL evaluate the subquery once. As a join it would be evaluated for each
	// row while there are no statistics on new rows, which takes seconds for thousands of
	// deliveries.
	q = q.Where("((subject_id, number) IN (?)) IS TRUE", first)
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("releasing deliveries: %w", err)
	}
	return nil
}

// SubjectsOf returns the subjects of deliveries, sorted.
func SubjectsOf(deliveries []*Delivery) (subjects []string) {
	for _, delivery := range deliveries {
		subjects = append(subjects, delivery.SubjectID)
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}
