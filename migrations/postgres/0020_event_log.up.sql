-- The audit log is also the event log: transactions in their order, and events of one transaction in
-- the order of seq. Events that are older than this migration have no seq and are not part of the feed.
CREATE SEQUENCE audit_events_seq;
GRANT USAGE ON SEQUENCE audit_events_seq TO linkforge_tenant, linkforge_system;
GRANT SELECT ON SEQUENCE audit_events_seq TO linkforge_system;  -- for backups
ALTER TABLE audit_events
    ADD version INTEGER,  -- of the link after the change
    ADD changes TEXT,     -- JSON: fields with their values before and after
    ADD xid     BIGINT,
    ADD seq     BIGINT;
ALTER TABLE audit_events
    ALTER xid SET DEFAULT pg_current_xact_id()::TEXT::BIGINT,
    ALTER seq SET DEFAULT nextval('audit_events_seq');
CREATE INDEX audit_events_in_order ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL;
