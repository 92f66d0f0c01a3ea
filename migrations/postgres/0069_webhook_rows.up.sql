-- Types and tags of webhooks are rows, which an index finds. All webhooks share a reader of each log. It marks those with new events: a
-- webhook has deliveries of the events up to (xid, seq), and is behind if (until_xid, until_seq) is later. Of clicks it creates the
-- deliveries. Bodies are rendered for each attempt.
CREATE TABLE webhook_types (
    type         TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    webhook_id   TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    PRIMARY KEY (type, workspace_id, webhook_id)
);
CREATE INDEX webhook_types_of_webhook ON webhook_types (webhook_id);
INSERT INTO webhook_types SELECT DISTINCT type, workspace_id, webhooks.id FROM webhooks, jsonb_array_elements_text(types::JSONB) AS type;

CREATE TABLE webhook_tags (
    webhook_id   TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    tag          TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (webhook_id, tag)
);
INSERT INTO webhook_tags SELECT DISTINCT webhooks.id, tag, workspace_id FROM webhooks, jsonb_array_elements_text(tags::JSONB) AS tag;

-- The readers' positions: (xid, seq) of events, or of batches of clicks that were written until read_at.
CREATE TABLE webhook_readers (
    log           TEXT COLLATE "C" PRIMARY KEY CHECK (log IN ('CLICKS', 'EVENTS')),
    xid           BIGINT NOT NULL,
    seq           BIGINT NOT NULL,
    read_at       TIMESTAMPTZ NOT NULL,
    claimed_until TIMESTAMPTZ  -- when a node that reads loses the log to others
);
INSERT INTO webhook_readers SELECT 'EVENTS', pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT - 1, 9223372036854775807, now();
INSERT INTO webhook_readers SELECT 'CLICKS', xid, seq, now() FROM webhook_readers;
UPDATE webhook_readers SET xid = first.click_xid, seq = first.click_batch, read_at = first.clicks_at
FROM (SELECT click_xid, click_batch, clicks_at FROM webhooks WHERE wants_clicks AND deleted_at IS NULL ORDER BY click_xid, click_batch LIMIT 1) AS first
WHERE log = 'CLICKS';

ALTER TABLE webhooks ADD COLUMN until_xid BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN until_seq BIGINT NOT NULL DEFAULT 0;
UPDATE webhooks SET until_xid = head.xid, until_seq = head.seq, due_at = created_at
FROM webhook_readers AS head WHERE head.log = 'EVENTS';
DROP INDEX webhooks_of_clicks;
ALTER TABLE webhooks DROP COLUMN types;
ALTER TABLE webhooks DROP COLUMN tags;
ALTER TABLE webhooks DROP COLUMN last_number;
ALTER TABLE webhooks DROP COLUMN wants_clicks;
ALTER TABLE webhooks RENAME COLUMN click_batch TO click_seq;
ALTER TABLE webhooks DROP COLUMN click_id;
ALTER TABLE webhooks DROP COLUMN clicks_at;
UPDATE webhook_deliveries SET number = event.seq FROM audit_events AS event
WHERE event.id = webhook_deliveries.event_id AND event.seq IS NOT NULL;
ALTER TABLE webhook_deliveries DROP COLUMN body;
ALTER TABLE webhook_deliveries DROP COLUMN last_click_id;

GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_types, webhook_tags TO linkforge_tenant, linkforge_system;
GRANT SELECT, UPDATE ON webhook_readers TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['webhook_types', 'webhook_tags'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))',
            name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
