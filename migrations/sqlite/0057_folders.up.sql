-- Folders of a workspace. A link is in one folder or in none.
CREATE TABLE folders (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    name_key     TEXT NOT NULL,  -- the name without regard to case
    created_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX folders_by_name ON folders (workspace_id, name_key);

ALTER TABLE links ADD folder_id TEXT REFERENCES folders (id);
CREATE INDEX links_by_folder ON links (folder_id, id) WHERE folder_id IS NOT NULL;
