-- The audit log is also the event log, in the order of seq: there is one writer at a time. Events that are
-- older than this migration have no seq and are not part of the feed.
ALTER TABLE audit_events ADD version INTEGER;  -- of the link after the change
ALTER TABLE audit_events ADD changes TEXT;     -- JSON: fields with their values before and after
ALTER TABLE audit_events ADD xid INTEGER;      -- used on PostgreSQL only
ALTER TABLE audit_events ADD seq INTEGER;
CREATE UNIQUE INDEX audit_events_seq ON audit_events (seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_events_in_order ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL;
CREATE TRIGGER audit_event_ordered AFTER INSERT ON audit_events FOR EACH ROW BEGIN
    UPDATE audit_events SET xid = 0, seq = (SELECT coalesce(max(seq), 0) + 1 FROM audit_events WHERE seq IS NOT NULL)
        WHERE id = NEW.id;
END;
