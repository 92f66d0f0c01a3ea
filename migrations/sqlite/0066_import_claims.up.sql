-- What earlier rows of a dry run would have taken: codes, external ids, destinations and names of folders.
CREATE TABLE import_claims (
    task_id      TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    claim        TEXT NOT NULL,
    number       INTEGER NOT NULL,  -- of the row
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, claim)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_claims_by_workspace ON import_claims (workspace_id);
DROP INDEX import_rows_by_code;
ALTER TABLE import_rows DROP COLUMN code_key;
