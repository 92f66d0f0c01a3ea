-- The history of links. A link's row is its newest version; link_versions has the superseded ones.
ALTER TABLE links
    ADD version       INTEGER NOT NULL DEFAULT 1,
    ADD version_cause TEXT COLLATE "C" NOT NULL DEFAULT 'CREATED',
    ADD version_actor TEXT COLLATE "C" NOT NULL DEFAULT '';  -- as actor_id in audit_events

CREATE TABLE link_versions (
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    starts_at    TIMESTAMPTZ NOT NULL,
    ends_at      TIMESTAMPTZ NOT NULL,  -- the first instant after it, at which the next version starts
    cause        TEXT COLLATE "C" NOT NULL,
    actor_id     TEXT COLLATE "C" NOT NULL,
    snapshot     TEXT NOT NULL,  -- JSON
    PRIMARY KEY (link_id, number)
);
GRANT SELECT, INSERT, DELETE ON link_versions TO linkforge_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON link_versions TO linkforge_system;
ALTER TABLE link_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON link_versions TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON link_versions TO linkforge_system USING (true);
