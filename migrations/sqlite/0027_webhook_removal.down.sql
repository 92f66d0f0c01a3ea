ALTER TABLE webhook_deliveries DROP click_ids;
DELETE FROM webhooks WHERE deleted_at IS NOT NULL;
DROP INDEX webhooks_deleted;
ALTER TABLE webhooks DROP deleted_at;
ALTER TABLE webhooks DROP needs_stats;
