CREATE TRIGGER audit_event_ordered AFTER INSERT ON audit_events FOR EACH ROW BEGIN
    UPDATE audit_events SET xid = 0, seq = (SELECT coalesce(max(seq), 0) + 1 FROM audit_events WHERE seq IS NOT NULL)
        WHERE id = NEW.id;
END;
DROP TABLE event_numbers;
DROP INDEX links_to_start;
DROP INDEX links_to_expire;
DROP INDEX links_to_exhaust;
CREATE INDEX links_to_end ON links (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
ALTER TABLE links DROP version_operation;
ALTER TABLE links DROP started_at;
ALTER TABLE links DROP expired_at;
ALTER TABLE links DROP exhausted_at;
ALTER TABLE link_versions DROP operation_id;
ALTER TABLE audit_events DROP operation_id;
ALTER TABLE audit_events DROP effective_at;
