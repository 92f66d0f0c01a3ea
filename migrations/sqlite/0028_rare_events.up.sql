-- Readers of the event log who want types that hardly occur do not read all others. internal/audit has the list too.
CREATE INDEX audit_events_rare ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL
    AND action NOT IN ('LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED', 'LINK_RESTORED', 'LINK_CLAIMED');
