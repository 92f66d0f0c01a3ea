-- The rest is in migration 0024: no other node runs beside.
DROP INDEX links_in_workspace;
CREATE INDEX links_of_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at, created_by, host_key) WHERE purged_at IS NULL;
