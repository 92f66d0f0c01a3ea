package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Batch is how many rows one statement reads or changes.
const Batch = 1000

// CleanUp removes deliveries that are older than audit.FeedRetention, and deleted webhooks with
// their deliveries.
func (s *Store) CleanUp(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	before := s.now().Add(-audit.FeedRetention)
	_, err := db.InBatches(Batch, func() (int64, error) { return s.removeOld(ctx, before) })
	if err != nil {
		err = fmt.Errorf("removing deliveries: %w", err)
	}
	return errors.Join(err, s.removeAll(ctx, func(q *bun.SelectQuery) *bun.SelectQuery { return q.WhereDeleted() }))
}

// Purge removes all webhooks of a workspace that is being purged, with their deliveries. The
// context must have the scope of the system.
func (s *Store) Purge(ctx context.Context, workspaceID string) error {
	return s.removeAll(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.WhereAllWithDeleted().Where("workspace_id = ?", workspaceID)
	})
}

// removeOld removes a batch of deliveries that are as old as an instant, and returns how many.
func (s *Store) removeOld(ctx context.Context, before time.Time) (removed int64, err error) {
	var old []*Delivery
	err = s.DB.NewSelect().Model(&old).Column("id", "webhook_id", "subject_id").Where("created_at <= ?", before).
		Order("created_at").Limit(Batch).Scan(ctx)
	if err != nil {
		return 0, err
	}
	byWebhook := map[string][]*Delivery{}
	for _, delivery := range old {
		byWebhook[delivery.WebhookID] = append(byWebhook[delivery.WebhookID], delivery)
	}
	for webhookID, deliveries := range byWebhook {
		if err := s.remove(ctx, webhookID, deliveries); err != nil {
			return 0, err
		}
	}
	return int64(len(old)), nil
}

// remove removes deliveries of a webhook, and makes the next ones about their subjects due if these
// waited for them.
func (s *Store) remove(ctx context.Context, webhookID string, deliveries []*Delivery) error {
	ids := make([]string, 0, len(deliveries))
	for _, delivery := range deliveries {
		ids = append(ids, delivery.ID)
	}
	return s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.Touch(ctx, tx, webhookID); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*Delivery)(nil)).Where("id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
			return err
		}
		return s.Release(ctx, tx, webhookID, SubjectsOf(deliveries)...)
	})
}

// removeAll removes the webhooks that match, with their deliveries in batches.
func (s *Store) removeAll(ctx context.Context, match func(*bun.SelectQuery) *bun.SelectQuery) error {
	var ids []string
	if err := match(s.DB.NewSelect().Model((*Webhook)(nil)).Column("id")).Scan(ctx, &ids); err != nil {
		return fmt.Errorf("looking up webhooks to remove: %w", err)
	}
	for _, webhookID := range ids {
		_, err := db.InBatches(Batch, func() (int64, error) {
			some := s.DB.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", webhookID).
				Limit(Batch)
			return db.Affected(s.DB.NewDelete().Model((*Delivery)(nil)).Where("id IN (?)", some).Exec(ctx))
		})
		if err == nil {
			_, err = s.DB.NewDelete().Model((*Webhook)(nil)).Where("id = ?", webhookID).ForceDelete().Exec(ctx)
		}
		if err != nil {
			return fmt.Errorf("removing a webhook: %w", err)
		}
	}
	return nil
}
