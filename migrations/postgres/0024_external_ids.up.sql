-- The ids and data of callers, and what lists of links are filtered and sorted by.
ALTER TABLE links
    ADD external_id TEXT COLLATE "C",
    ADD metadata    TEXT COLLATE "C" NOT NULL DEFAULT '',  -- JSON, in the order of the keys; empty: none
    ADD host_key    TEXT COLLATE "C" NOT NULL DEFAULT '';  -- the labels of the destination's host in reverse, as in com.example.www.

-- The pairs of metadata, for filters.
CREATE TABLE link_metadata (
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    key          TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    value        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (link_id, key)
);
CREATE INDEX link_metadata_by_pair ON link_metadata (workspace_id, key, value, link_id);

-- Migration 0033 fills host_key and builds the indexes while requests go on.

GRANT SELECT, INSERT, DELETE ON link_metadata TO linkforge_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON link_metadata TO linkforge_system;
ALTER TABLE link_metadata ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_metadata FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON link_metadata TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON link_metadata TO linkforge_system USING (true);
