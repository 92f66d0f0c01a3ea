-- The rows of an import, with what became of them.
CREATE TABLE import_rows (
    task_id      TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,  -- from 1, in the order of the source
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    line         INTEGER NOT NULL,
    source_id    TEXT NOT NULL,
    source_url   TEXT NOT NULL,     -- empty: the source has none
    host         TEXT NOT NULL,
    hash         BLOB NOT NULL,     -- of the link that the row describes
    outcome      TEXT NOT NULL,
    code         TEXT,
    code_key     TEXT,              -- of a link that a dry run would create or change
    canonical_hash BLOB,            -- of its destination
    link_id      TEXT,
    losses       TEXT,              -- as JSON; NULL: none
    ignored      TEXT,              -- names of fields, as JSON; NULL: none
    error_code   TEXT,
    error        TEXT,
    error_field  TEXT,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_rows_by_source ON import_rows (task_id, source_id);
CREATE UNIQUE INDEX import_rows_by_code ON import_rows (task_id, code_key) WHERE code_key IS NOT NULL;
CREATE INDEX import_rows_by_workspace ON import_rows (workspace_id);

-- Where links were imported from. A later import of the same row finds its link by it.
CREATE TABLE link_origins (
    workspace_id      TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    source            TEXT NOT NULL,
    label             TEXT NOT NULL,
    source_id         TEXT NOT NULL,
    link_id           TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    source_url        TEXT,
    hash              BLOB NOT NULL,
    source_created_at TEXT,
    clicks            INTEGER,
    last_clicked_at   TEXT,
    imported_at       TEXT NOT NULL,
    PRIMARY KEY (workspace_id, source, label, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_origins_by_link ON link_origins (link_id, imported_at);
