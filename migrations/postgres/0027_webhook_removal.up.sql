-- needs_stats says that the selection of a webhook reads statistics, which its changes then require. It is not
-- known for existing selections, so they count as if they did until they are set again.
ALTER TABLE webhooks ADD needs_stats BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE webhooks SET needs_stats = TRUE WHERE selection IS NOT NULL;
-- Deleted webhooks are removed by the clean-up, with their deliveries.
ALTER TABLE webhooks ADD deleted_at TIMESTAMPTZ;
CREATE INDEX webhooks_deleted ON webhooks (id) WHERE deleted_at IS NOT NULL;
-- The ids of the clicks of a batch, separated by spaces: its body is rendered from them, and stored only while it waits.
ALTER TABLE webhook_deliveries ADD click_ids TEXT NOT NULL DEFAULT '';
UPDATE webhook_deliveries SET body = NULL WHERE status <> 'WAITING' AND type <> 'LINK_CLICKED';
