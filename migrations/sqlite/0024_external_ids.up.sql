-- The ids and data of callers, and what lists of links are filtered and sorted by.
ALTER TABLE links ADD external_id TEXT;
ALTER TABLE links ADD metadata TEXT NOT NULL DEFAULT '';  -- JSON, in the order of the keys; empty: none
ALTER TABLE links ADD host_key TEXT NOT NULL DEFAULT '';  -- the labels of the destination's host in reverse, as in com.example.www.

-- The pairs of metadata, for filters.
CREATE TABLE link_metadata (
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    key          TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    value        TEXT NOT NULL,
    PRIMARY KEY (link_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_metadata_by_pair ON link_metadata (workspace_id, key, value, link_id);

UPDATE links SET host_key = substr(canonical_url, instr(canonical_url, '://') + 3) WHERE canonical_url <> '';
UPDATE links SET host_key = substr(host_key, 1, instr(host_key || '/', '/') - 1);
UPDATE links SET host_key = substr(host_key, 1, instr(host_key || '?', '?') - 1);
UPDATE links SET host_key = CASE WHEN host_key LIKE '[%' THEN substr(host_key, 2, instr(host_key, ']') - 2)
    ELSE substr(host_key, 1, instr(host_key || ':', ':') - 1) END;
UPDATE links SET host_key = (
    WITH RECURSIVE labels (rest, reversed) AS (
        SELECT host_key || '.', ''
        UNION ALL
        SELECT substr(rest, instr(rest, '.') + 1), substr(rest, 1, instr(rest, '.')) || reversed FROM labels WHERE rest <> ''
    )
    SELECT reversed FROM labels WHERE rest = ''
) WHERE host_key <> '';

-- With the columns of further filters: an index of their own for each would slow down creation.
DROP INDEX links_in_workspace;
CREATE INDEX links_in_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at, created_by, host_key) WHERE purged_at IS NULL;

CREATE UNIQUE INDEX links_by_external_id ON links (workspace_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX links_by_update ON links (workspace_id, updated_at, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_expiration ON links (workspace_id, expires_at, id) WHERE expires_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_with_routing ON links (workspace_id, id) WHERE routing IS NOT NULL AND purged_at IS NULL;
CREATE INDEX click_totals_by_last_click ON click_totals (workspace_id, last_at, subject_id);
