-- The rows of an import, with what became of them.
CREATE TABLE import_rows (
    task_id      TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number       BIGINT NOT NULL,            -- from 1, in the order of the source
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    line         BIGINT NOT NULL,
    source_id    TEXT COLLATE "C" NOT NULL,
    source_url   TEXT COLLATE "C" NOT NULL,  -- empty: the source has none
    host         TEXT COLLATE "C" NOT NULL,
    hash         BYTEA NOT NULL,             -- of the link that the row describes
    outcome      TEXT COLLATE "C" NOT NULL,
    code         TEXT COLLATE "C",
    code_key     TEXT COLLATE "C",           -- of a link that a dry run would create or change
    canonical_hash BYTEA,                    -- of its destination
    link_id      TEXT COLLATE "C",
    losses       TEXT COLLATE "C",           -- as JSON; NULL: none
    ignored      TEXT COLLATE "C",           -- names of fields, as JSON; NULL: none
    error_code   TEXT COLLATE "C",
    error        TEXT COLLATE "C",
    error_field  TEXT COLLATE "C",
    PRIMARY KEY (task_id, number)
);
CREATE INDEX import_rows_by_source ON import_rows (task_id, source_id);
CREATE UNIQUE INDEX import_rows_by_code ON import_rows (task_id, code_key) WHERE code_key IS NOT NULL;
CREATE INDEX import_rows_by_workspace ON import_rows (workspace_id);

-- Where links were imported from. A later import of the same row finds its link by it.
CREATE TABLE link_origins (
    workspace_id      TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    source            TEXT COLLATE "C" NOT NULL,
    label             TEXT COLLATE "C" NOT NULL,
    source_id         TEXT COLLATE "C" NOT NULL,
    link_id           TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    source_url        TEXT COLLATE "C",
    hash              BYTEA NOT NULL,
    source_created_at TIMESTAMPTZ,
    clicks            BIGINT,
    last_clicked_at   TIMESTAMPTZ,
    imported_at       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, source, label, source_id)
);
CREATE INDEX link_origins_by_link ON link_origins (link_id, imported_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON import_rows, link_origins TO linkforge_tenant, linkforge_system;
ALTER TABLE import_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE import_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON import_rows TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON import_rows TO linkforge_system USING (true);
ALTER TABLE link_origins ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_origins FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON link_origins TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON link_origins TO linkforge_system USING (true);
