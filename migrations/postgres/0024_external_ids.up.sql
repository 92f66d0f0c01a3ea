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

ALTER TABLE links NO FORCE ROW LEVEL SECURITY;
UPDATE links SET host_key = coalesce((
    SELECT string_agg(label, '.' ORDER BY position DESC) || '.'
    FROM string_to_table(trim('[]' FROM substring(canonical_url FROM '^https?://(\[[^]]*\]|[^/:?]*)')), '.')
        WITH ORDINALITY AS labels (label, position)
), '') WHERE canonical_url <> '';
ALTER TABLE links FORCE ROW LEVEL SECURITY;

-- With the columns of further filters: an index of their own for each would slow down creation.
DROP INDEX links_in_workspace;
CREATE INDEX links_in_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at, created_by, host_key) WHERE purged_at IS NULL;

CREATE UNIQUE INDEX links_by_external_id ON links (workspace_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX links_by_update ON links (workspace_id, updated_at, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_expiration ON links (workspace_id, expires_at, id) WHERE expires_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_with_routing ON links (workspace_id, id) WHERE routing IS NOT NULL AND purged_at IS NULL;
CREATE INDEX click_totals_by_last_click ON click_totals (workspace_id, last_at, subject_id);

GRANT SELECT, INSERT, DELETE ON link_metadata TO linkforge_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON link_metadata TO linkforge_system;
ALTER TABLE link_metadata ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_metadata FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON link_metadata TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON link_metadata TO linkforge_system USING (true);
