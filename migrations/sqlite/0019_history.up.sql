-- The history of links. A link's row is its newest version; link_versions has the superseded ones.
ALTER TABLE links ADD version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE links ADD version_cause TEXT NOT NULL DEFAULT 'CREATED';
ALTER TABLE links ADD version_actor TEXT NOT NULL DEFAULT '';  -- as actor_id in audit_events

CREATE TABLE link_versions (
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    starts_at    TEXT NOT NULL,
    ends_at      TEXT NOT NULL,  -- the first instant after it, at which the next version starts
    cause        TEXT NOT NULL,
    actor_id     TEXT NOT NULL,
    snapshot     TEXT NOT NULL,  -- JSON
    PRIMARY KEY (link_id, number)
) STRICT, WITHOUT ROWID;

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
