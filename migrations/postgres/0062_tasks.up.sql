-- Long operations of workspaces, with their progress. A node holds a running one by a lease.
CREATE TABLE tasks (
    id                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id        TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    kind                TEXT COLLATE "C" NOT NULL,
    status              TEXT COLLATE "C" NOT NULL
        CHECK (status IN ('WAITING_FOR_UPLOAD', 'QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    input               TEXT COLLATE "C" NOT NULL,             -- arguments, as JSON
    cursor              TEXT COLLATE "C" NOT NULL DEFAULT '',  -- where its handler goes on
    done                BIGINT NOT NULL DEFAULT 0,
    total               BIGINT,
    lease_holder        TEXT COLLATE "C",
    lease_until         TIMESTAMPTZ,
    attempts            INTEGER NOT NULL DEFAULT 0,  -- leases since it last advanced
    due_at              TIMESTAMPTZ NOT NULL,        -- before then, no node takes it
    cancel_requested_at TIMESTAMPTZ,
    error_code          TEXT COLLATE "C",
    error               TEXT COLLATE "C",
    actor_id            TEXT COLLATE "C" NOT NULL,   -- the account or the API key that started it
    operation_id        TEXT COLLATE "C" NOT NULL,
    created_at          TIMESTAMPTZ NOT NULL,
    started_at          TIMESTAMPTZ,
    updated_at          TIMESTAMPTZ NOT NULL,
    finished_at         TIMESTAMPTZ,
    CHECK ((status = 'RUNNING') = (lease_holder IS NOT NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL))
);
CREATE INDEX tasks_by_workspace ON tasks (workspace_id, id);
CREATE INDEX tasks_unfinished ON tasks (id) WHERE finished_at IS NULL;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_running ON tasks (workspace_id, kind) WHERE status = 'RUNNING';

-- The file of a task, in chunks. Those of an interrupted upload stay until the next one.
CREATE TABLE task_chunks (
    task_id      TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    upload       TEXT COLLATE "C" NOT NULL,
    number       INTEGER NOT NULL,
    bytes        BYTEA NOT NULL,
    PRIMARY KEY (task_id, upload, number)
);
CREATE INDEX task_chunks_by_workspace ON task_chunks (workspace_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON tasks, task_chunks TO linkforge_tenant, linkforge_system;
GRANT SELECT ON tasks TO linkforge_resolver;
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE tasks FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON tasks TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY resolved ON tasks TO linkforge_resolver USING (true);
CREATE POLICY all_rows ON tasks TO linkforge_system USING (true);
ALTER TABLE task_chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON task_chunks TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON task_chunks TO linkforge_system USING (true);
