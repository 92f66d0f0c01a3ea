-- The comparisons of a parity check.
CREATE TABLE parity_rows (
    task_id         TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number          INTEGER NOT NULL,  -- from 1
    workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    link_id         TEXT NOT NULL,
    source_url      TEXT NOT NULL,
    verdict         TEXT NOT NULL,
    source_status   INTEGER,         -- NULL: no response
    source_location TEXT,
    status          INTEGER NOT NULL,
    location        TEXT,
    checked_at      TEXT NOT NULL,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX parity_rows_by_workspace ON parity_rows (workspace_id);
