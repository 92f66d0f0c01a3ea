-- Webhooks, their deliveries and the attempts to send them. due_at of a webhook is when its deliveries
-- have to be looked at; (xid, seq) is its position in the event log, up to which it has deliveries.
CREATE TABLE webhooks (
    id               TEXT PRIMARY KEY,
    workspace_id     TEXT NOT NULL REFERENCES workspaces (id),
    name             TEXT NOT NULL,
    url              TEXT NOT NULL,
    host             TEXT NOT NULL,  -- of url, in canonical form
    types            TEXT NOT NULL,  -- JSON
    tags             TEXT NOT NULL,  -- JSON
    selection        TEXT,
    selection_error  TEXT,
    status           TEXT NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED', 'DISABLED')),
    blocked          INTEGER NOT NULL DEFAULT FALSE,  -- disabled by the operator
    secret           BLOB NOT NULL,  -- encrypted
    old_secret       BLOB,
    old_secret_ends_at TEXT,
    xid              INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    last_number      INTEGER NOT NULL DEFAULT 0,  -- of its deliveries
    wants_clicks     INTEGER NOT NULL,  -- types has LINK_CLICKED
    click_xid        INTEGER NOT NULL DEFAULT 0,  -- the position among clicks
    click_batch      INTEGER NOT NULL DEFAULT 0,
    click_id         INTEGER NOT NULL DEFAULT 0,
    clicks_at        TEXT NOT NULL,
    skipped_clicks   INTEGER NOT NULL DEFAULT 0,
    due_at           TEXT,
    failing_since    TEXT,  -- since when all attempts have failed
    created_at       TEXT NOT NULL,
    created_by       TEXT NOT NULL  -- the id of an account or API key
) STRICT;
CREATE INDEX webhooks_in_workspace ON webhooks (workspace_id, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_of_clicks ON webhooks (id) WHERE wants_clicks;
CREATE INDEX webhooks_by_host ON webhooks (host);

CREATE TABLE webhook_deliveries (
    id            TEXT PRIMARY KEY,
    workspace_id  TEXT NOT NULL,
    webhook_id    TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id      TEXT NOT NULL,  -- or the id of the first click
    last_click_id TEXT NOT NULL DEFAULT '',
    clicks        INTEGER NOT NULL DEFAULT 0,
    subject_id    TEXT NOT NULL,  -- first attempts about one subject are sent in the order of number
    type          TEXT NOT NULL,
    number        INTEGER NOT NULL,
    body          TEXT,  -- NULL: to be rendered before the next attempt
    status        TEXT NOT NULL CHECK (status IN ('WAITING', 'DELIVERED', 'FAILED', 'SKIPPED')),
    tries         INTEGER NOT NULL DEFAULT 0,  -- since the schedule of attempts began
    due_at        TEXT,  -- of a waiting delivery NULL while an earlier one of its subject is first
    claimed_until TEXT,  -- when a node that sends it loses it to others
    first_tried_at TEXT,  -- the first attempt since the schedule began
    created_at    TEXT NOT NULL,
    UNIQUE (webhook_id, event_id)
) STRICT;
CREATE INDEX webhook_deliveries_in_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE status = 'WAITING';
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (webhook_id, subject_id, number) WHERE status = 'WAITING' AND tries = 0;
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);

CREATE TABLE webhook_attempts (
    delivery_id  TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    sent_at      TEXT NOT NULL,
    status       INTEGER,  -- of the response
    error        TEXT,
    duration_ms  INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, number)
) STRICT;

-- A row while the operator has stopped all webhooks.
CREATE TABLE webhook_stops (
    id         TEXT PRIMARY KEY CHECK (id = 'all'),
    stopped_at TEXT NOT NULL
) STRICT;
