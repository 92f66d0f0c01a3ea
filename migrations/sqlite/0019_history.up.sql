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
