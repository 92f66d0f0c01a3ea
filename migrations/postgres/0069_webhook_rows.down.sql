ALTER TABLE webhook_deliveries ADD COLUMN body TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN last_click_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE webhooks ADD COLUMN types TEXT NOT NULL DEFAULT '[]';
ALTER TABLE webhooks ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE webhooks ADD COLUMN last_number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN wants_clicks BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE webhooks RENAME COLUMN click_seq TO click_batch;
ALTER TABLE webhooks ADD COLUMN click_id BIGINT NOT NULL DEFAULT 9223372036854775807;
ALTER TABLE webhooks ADD COLUMN clicks_at TIMESTAMPTZ NOT NULL DEFAULT 'epoch';
UPDATE webhooks SET types = (SELECT coalesce(json_agg(type), '[]') FROM webhook_types WHERE webhook_id = webhooks.id),
    tags = (SELECT coalesce(json_agg(tag), '[]') FROM webhook_tags WHERE webhook_id = webhooks.id),
    last_number = (SELECT coalesce(max(number), 0) FROM webhook_deliveries WHERE webhook_id = webhooks.id),
    wants_clicks = EXISTS (SELECT 1 FROM webhook_types WHERE webhook_id = webhooks.id AND type = 'LINK_CLICKED'),
    click_xid = reader.xid, click_batch = reader.seq, clicks_at = reader.read_at
FROM webhook_readers AS reader WHERE reader.log = 'CLICKS';
CREATE INDEX webhooks_of_clicks ON webhooks (workspace_id, id) WHERE wants_clicks;
ALTER TABLE webhooks DROP COLUMN until_xid;
ALTER TABLE webhooks DROP COLUMN until_seq;
DROP TABLE webhook_readers;
DROP TABLE webhook_tags;
DROP TABLE webhook_types;
