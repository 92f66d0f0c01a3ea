-- online
-- Fills host_key and builds the indexes of migration 0024, which locked the links for minutes when it did so itself. On
-- databases that it has migrated so, host_key is complete, and only links_of_workspace is built.
DO $$
DECLARE
    last TEXT := '';
BEGIN
    LOOP
        SET LOCAL ROLE linkforge_system;  -- until COMMIT: the owner is subject to row-level security
        WITH batch AS (
            SELECT id FROM links WHERE id > last ORDER BY id LIMIT 1000
        ), missing AS (
            SELECT id FROM links WHERE id IN (SELECT id FROM batch) AND host_key = '' AND canonical_url <> ''
            ORDER BY id FOR NO KEY UPDATE
        ), filled AS (
            UPDATE links SET host_key = host_key_of(canonical_url) WHERE id IN (SELECT id FROM missing)
        )
        SELECT max(id) INTO last FROM batch;
        EXIT WHEN last IS NULL;
        COMMIT;
    END LOOP;
END $$;
-- next
-- With the columns of further filters: an index of their own for each would slow down creation.
CREATE INDEX CONCURRENTLY IF NOT EXISTS links_of_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at, created_by, host_key) WHERE purged_at IS NULL;
-- next
DROP INDEX CONCURRENTLY IF EXISTS links_in_workspace;  -- of fewer columns
-- next
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS links_by_external_id ON links (workspace_id, external_id) WHERE external_id IS NOT NULL;
-- next
CREATE INDEX CONCURRENTLY IF NOT EXISTS links_by_update ON links (workspace_id, updated_at, id) WHERE purged_at IS NULL;
-- next
CREATE INDEX CONCURRENTLY IF NOT EXISTS links_by_expiration ON links (workspace_id, expires_at, id) WHERE expires_at IS NOT NULL AND purged_at IS NULL;
-- next
CREATE INDEX CONCURRENTLY IF NOT EXISTS links_with_routing ON links (workspace_id, id) WHERE routing IS NOT NULL AND purged_at IS NULL;
-- next
CREATE INDEX CONCURRENTLY IF NOT EXISTS click_totals_by_last_click ON click_totals (workspace_id, last_at, subject_id);
