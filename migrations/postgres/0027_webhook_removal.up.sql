-- needs_stats says that the selection of a webhook reads statistics, which its changes then require. It is not
-- known for existing selections, so they count as if they did until they are set again.
ALTER TABLE webhooks ADD needs_stats BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE webhooks SET needs_stats = TRUE WHERE selection IS NOT NULL;
-- Deleted webhooks are removed by the clean-up, with their deliveries.
ALTER TABLE webhooks ADD deleted_at TIMESTAMPTZ;
CREATE INDEX webhooks_deleted ON webhooks (id) WHERE deleted_at IS NOT NULL;
