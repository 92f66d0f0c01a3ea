-- What earlier rows of a dry run would have taken: codes, external ids, destinations and names of folders.
CREATE TABLE import_claims (
    task_id      TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    claim        TEXT COLLATE "C" NOT NULL,
    number       BIGINT NOT NULL,  -- of the row
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, claim)
);
CREATE INDEX import_claims_by_workspace ON import_claims (workspace_id);
DROP INDEX import_rows_by_code;
ALTER TABLE import_rows DROP COLUMN code_key;

GRANT SELECT, INSERT, UPDATE, DELETE ON import_claims TO linkforge_tenant, linkforge_system;
ALTER TABLE import_claims ENABLE ROW LEVEL SECURITY;
ALTER TABLE import_claims FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON import_claims TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON import_claims TO linkforge_system USING (true);
