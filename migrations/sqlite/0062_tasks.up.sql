-- Long operations of workspaces, with their progress. A node holds a running one by a lease.
CREATE TABLE tasks (
    id                  TEXT NOT NULL PRIMARY KEY,
    workspace_id        TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    kind                TEXT NOT NULL,
    status              TEXT NOT NULL
        CHECK (status IN ('WAITING_FOR_UPLOAD', 'QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    input               TEXT NOT NULL,             -- arguments, as JSON
    cursor              TEXT NOT NULL DEFAULT '',  -- where its handler goes on
    done                INTEGER NOT NULL DEFAULT 0,
    total               INTEGER,
    lease_holder        TEXT,
    lease_until         TEXT,
    attempts            INTEGER NOT NULL DEFAULT 0,  -- leases since it last advanced
    due_at              TEXT NOT NULL,               -- before then, no node takes it
    cancel_requested_at TEXT,
    error_code          TEXT,
    error               TEXT,
    actor_id            TEXT NOT NULL,               -- the account or the API key that started it
    operation_id        TEXT NOT NULL,
    created_at          TEXT NOT NULL,
    started_at          TEXT,
    updated_at          TEXT NOT NULL,
    finished_at         TEXT,
    CHECK ((status = 'RUNNING') = (lease_holder IS NOT NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_by_workspace ON tasks (workspace_id, id);
CREATE INDEX tasks_unfinished ON tasks (id) WHERE finished_at IS NULL;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_running ON tasks (workspace_id, kind) WHERE status = 'RUNNING';

-- The file of a task, in chunks. Those of an interrupted upload stay until the next one.
CREATE TABLE task_chunks (
    task_id      TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    upload       TEXT NOT NULL,
    number       INTEGER NOT NULL,
    bytes        BLOB NOT NULL,
    PRIMARY KEY (task_id, upload, number)
) STRICT;
CREATE INDEX task_chunks_by_workspace ON task_chunks (workspace_id);
