-- The down migration 0024 drops the other indexes.
CREATE INDEX links_in_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at) WHERE purged_at IS NULL;
DROP INDEX links_of_workspace;
