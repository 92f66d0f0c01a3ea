-- The comparisons of a parity check.
CREATE TABLE parity_rows (
    task_id         TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number          BIGINT NOT NULL,  -- from 1
    workspace_id    TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    link_id         TEXT COLLATE "C" NOT NULL,
    source_url      TEXT COLLATE "C" NOT NULL,
    verdict         TEXT COLLATE "C" NOT NULL,
    source_status   INTEGER,         -- NULL: no response
    source_location TEXT COLLATE "C",
    status          INTEGER NOT NULL,
    location        TEXT COLLATE "C",
    checked_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (task_id, number)
);
CREATE INDEX parity_rows_by_workspace ON parity_rows (workspace_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON parity_rows TO linkforge_tenant, linkforge_system;
ALTER TABLE parity_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE parity_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON parity_rows TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON parity_rows TO linkforge_system USING (true);
