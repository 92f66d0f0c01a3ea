-- Types and tags of webhooks are rows, which an index finds. All webhooks share a reader of each log. It marks those with new events: a
-- webhook has deliveries of the events up to (xid, seq), and is behind if (until_xid, until_seq) is later. Of clicks it creates the
-- deliveries. Bodies are rendered for each attempt.
CREATE TABLE webhook_types (
    type         TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    webhook_id   TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    PRIMARY KEY (type, workspace_id, webhook_id)
) STRICT;
CREATE INDEX webhook_types_of_webhook ON webhook_types (webhook_id);
INSERT INTO webhook_types SELECT DISTINCT type.value, workspace_id, webhooks.id FROM webhooks, json_each(types) AS type;

CREATE TABLE webhook_tags (
    webhook_id   TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    tag          TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    PRIMARY KEY (webhook_id, tag)
) STRICT;
INSERT INTO webhook_tags SELECT DISTINCT webhooks.id, tag.value, workspace_id FROM webhooks, json_each(tags) AS tag;

-- The readers' positions: (xid, seq) of events, or of batches of clicks that were written until read_at.
CREATE TABLE webhook_readers (
    log           TEXT PRIMARY KEY CHECK (log IN ('CLICKS', 'EVENTS')),
    xid           INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    read_at       TEXT NOT NULL,
    claimed_until TEXT  -- when a node that reads loses the log to others
) STRICT;
INSERT INTO webhook_readers SELECT 'EVENTS', 0, coalesce(max(seq), 0), strftime('%Y-%m-%d %H:%M:%f+00:00', 'now'), NULL
FROM audit_events WHERE seq IS NOT NULL;
INSERT INTO webhook_readers SELECT 'CLICKS', 0, coalesce((SELECT min(click_batch) FROM webhooks WHERE wants_clicks AND deleted_at IS NULL), max(id), 0),
    coalesce((SELECT min(clicks_at) FROM webhooks WHERE wants_clicks AND deleted_at IS NULL), strftime('%Y-%m-%d %H:%M:%f+00:00', 'now')), NULL
FROM click_batches;

ALTER TABLE webhooks ADD COLUMN until_xid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN until_seq INTEGER NOT NULL DEFAULT 0;
UPDATE webhooks SET until_seq = (SELECT seq FROM webhook_readers WHERE log = 'EVENTS'), due_at = created_at;
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
