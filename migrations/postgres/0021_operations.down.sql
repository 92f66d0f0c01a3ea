DROP INDEX links_to_start;
DROP INDEX links_to_expire;
DROP INDEX links_to_exhaust;
CREATE INDEX links_to_end ON links (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
ALTER TABLE links DROP version_operation, DROP started_at, DROP expired_at, DROP exhausted_at;
ALTER TABLE link_versions DROP operation_id;
ALTER TABLE audit_events DROP operation_id, DROP effective_at;
