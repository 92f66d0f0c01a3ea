-- Folders of a workspace. A link is in one folder or in none.
CREATE TABLE folders (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT COLLATE "C" NOT NULL,
    name_key     TEXT COLLATE "C" NOT NULL,  -- the name without regard to case
    created_at   TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX folders_by_name ON folders (workspace_id, name_key);

ALTER TABLE links ADD folder_id TEXT COLLATE "C" REFERENCES folders (id);
CREATE INDEX links_by_folder ON links (folder_id, id) WHERE folder_id IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON folders TO linkforge_tenant, linkforge_system;
GRANT SELECT ON folders TO linkforge_resolver, linkforge_creator;
ALTER TABLE folders ENABLE ROW LEVEL SECURITY;
ALTER TABLE folders FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON folders TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY of_workspaces ON folders TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY resolved ON folders TO linkforge_resolver USING (true);
CREATE POLICY all_rows ON folders TO linkforge_system USING (true);
