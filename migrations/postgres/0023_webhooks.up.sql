-- Webhooks, their deliveries and the attempts to send them. due_at of a webhook is when its deliveries
-- have to be looked at; (xid, seq) is its position in the event log, up to which it has deliveries.
CREATE TABLE webhooks (
    id               TEXT COLLATE "C" PRIMARY KEY,
    workspace_id     TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    name             TEXT NOT NULL,
    url              TEXT NOT NULL,
    host             TEXT COLLATE "C" NOT NULL,  -- of url, in canonical form
    types            TEXT NOT NULL,  -- JSON
    tags             TEXT NOT NULL,  -- JSON
    selection        TEXT,
    selection_error  TEXT,
    status           TEXT COLLATE "C" NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED', 'DISABLED')),
    blocked          BOOLEAN NOT NULL DEFAULT FALSE,  -- disabled by the operator
    secret           BYTEA NOT NULL,  -- encrypted
    old_secret       BYTEA,
    old_secret_ends_at TIMESTAMPTZ,
    xid              BIGINT NOT NULL,
    seq              BIGINT NOT NULL,
    last_number      BIGINT NOT NULL DEFAULT 0,  -- of its deliveries
    wants_clicks     BOOLEAN NOT NULL,  -- types has LINK_CLICKED
    click_xid        BIGINT NOT NULL DEFAULT 0,  -- the position among clicks
    click_batch      BIGINT NOT NULL DEFAULT 0,
    click_id         BIGINT NOT NULL DEFAULT 0,
    clicks_at        TIMESTAMPTZ NOT NULL,
    skipped_clicks   BIGINT NOT NULL DEFAULT 0,
    due_at           TIMESTAMPTZ,
    failing_since    TIMESTAMPTZ,  -- since when all attempts have failed
    created_at       TIMESTAMPTZ NOT NULL,
    created_by       TEXT COLLATE "C" NOT NULL  -- the id of an account or API key
);
CREATE INDEX webhooks_in_workspace ON webhooks (workspace_id, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_of_clicks ON webhooks (id) WHERE wants_clicks;
CREATE INDEX webhooks_by_host ON webhooks (host);

CREATE TABLE webhook_deliveries (
    id            TEXT COLLATE "C" PRIMARY KEY,
    workspace_id  TEXT COLLATE "C" NOT NULL,
    webhook_id    TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id      TEXT COLLATE "C" NOT NULL,  -- or the id of the first click
    last_click_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    clicks        BIGINT NOT NULL DEFAULT 0,
    subject_id    TEXT COLLATE "C" NOT NULL,  -- first attempts about one subject are sent in the order of number
    type          TEXT COLLATE "C" NOT NULL,
    number        BIGINT NOT NULL,
    body          TEXT,  -- NULL: to be rendered before the next attempt
    status        TEXT COLLATE "C" NOT NULL CHECK (status IN ('WAITING', 'DELIVERED', 'FAILED', 'SKIPPED')),
    tries         INTEGER NOT NULL DEFAULT 0,  -- since the schedule of attempts began
    due_at        TIMESTAMPTZ,  -- of a waiting delivery NULL while an earlier one of its subject is first
    claimed_until TIMESTAMPTZ,  -- when a node that sends it loses it to others
    first_tried_at TIMESTAMPTZ,  -- the first attempt since the schedule began
    created_at    TIMESTAMPTZ NOT NULL,
    UNIQUE (webhook_id, event_id)
);
CREATE INDEX webhook_deliveries_in_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE status = 'WAITING';
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (webhook_id, subject_id, number) WHERE status = 'WAITING' AND tries = 0;
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);

CREATE TABLE webhook_attempts (
    delivery_id  TEXT COLLATE "C" NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    sent_at      TIMESTAMPTZ NOT NULL,
    status       INTEGER,  -- of the response
    error        TEXT COLLATE "C",
    duration_ms  INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

-- A row while the operator has stopped all webhooks.
CREATE TABLE webhook_stops (
    id         TEXT COLLATE "C" PRIMARY KEY CHECK (id = 'all'),
    stopped_at TIMESTAMPTZ NOT NULL
);

-- Dispatchers read the event log of all workspaces in its order.
CREATE INDEX audit_events_by_commit ON audit_events (xid, seq) WHERE seq IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_deliveries, webhook_attempts TO linkforge_tenant, linkforge_system;
GRANT SELECT ON webhooks TO linkforge_resolver;
GRANT SELECT ON webhook_stops TO linkforge_tenant;
GRANT SELECT, INSERT, DELETE ON webhook_stops TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['webhooks', 'webhook_deliveries', 'webhook_attempts'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))',
            name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
CREATE POLICY resolved ON webhooks TO linkforge_resolver USING (true);
