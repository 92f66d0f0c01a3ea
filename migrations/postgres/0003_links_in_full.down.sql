DROP TABLE reports;
DROP TABLE blocked_hosts;
DROP TABLE leases;
DROP TABLE idempotency_keys;
DROP INDEX click_totals_by_clicks;
DROP TABLE link_tags;

DELETE FROM links WHERE workspace_id = 'ws_00000000000000000000000000' OR purged_at IS NOT NULL;
DROP INDEX links_by_search;
DROP INDEX links_to_check;
DROP INDEX links_to_purge;
DROP INDEX links_to_end;
DROP INDEX links_by_claim;
DROP INDEX links_by_title;
DROP INDEX links_in_workspace;
CREATE INDEX links_in_workspace ON links (workspace_id, id) WHERE deleted_at IS NULL;
ALTER TABLE links
    DROP note, DROP archived_at, DROP max_clicks, DROP granted, DROP ended_at, DROP purged_at, DROP claim_hash,
    DROP title_key, DROP search, DROP destination_status, DROP last_checked_at, DROP check_at, DROP check_failures;

DELETE FROM workspaces WHERE id = 'ws_00000000000000000000000000';
ALTER TABLE workspaces DROP default_strategy, DROP default_redirect_status;
-- The extensions stay: others may use them by now.
