-- Changes of links at instants in the future. A link with some has the soonest instant in its row, so that
-- other links cost nothing.
ALTER TABLE links
    ADD version_starts_at TIMESTAMPTZ,  -- when the newest version took effect; null: updated_at
    ADD next_change_at    TIMESTAMPTZ;  -- maintained by the trigger below
CREATE INDEX links_to_change ON links (next_change_at) WHERE next_change_at IS NOT NULL;

CREATE TABLE scheduled_changes (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL,
    due_at       TIMESTAMPTZ NOT NULL,
    patch        TEXT NOT NULL,  -- JSON, see internal/schedule
    actor_id     TEXT COLLATE "C" NOT NULL,  -- as in audit_events
    created_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX scheduled_changes_of_link ON scheduled_changes (link_id, due_at, id);

-- Nodes cache the pending states of a link, so each of its scheduled changes is a change of the link.
CREATE FUNCTION schedule_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    changed TEXT := COALESCE(NEW.link_id, OLD.link_id);
BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = changed) WHERE id = changed;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = changed;
    RETURN NULL;
END $$;
CREATE TRIGGER change_scheduled AFTER INSERT ON scheduled_changes FOR EACH ROW EXECUTE FUNCTION schedule_changed();
CREATE TRIGGER scheduled_change_removed AFTER DELETE ON scheduled_changes FOR EACH ROW EXECUTE FUNCTION schedule_changed();

-- Which workspace had a host, and when.
CREATE TABLE host_owners (
    host         TEXT COLLATE "C" NOT NULL,  -- canonical
    workspace_id TEXT COLLATE "C" NOT NULL,
    starts_at    TIMESTAMPTZ NOT NULL,
    ends_at      TIMESTAMPTZ,  -- the first instant after it; null: it has the host
    PRIMARY KEY (host, starts_at)
);
CREATE UNIQUE INDEX host_owners_now ON host_owners (host) WHERE ends_at IS NULL;

ALTER TABLE domains NO FORCE ROW LEVEL SECURITY;
INSERT INTO host_owners (host, workspace_id, starts_at) SELECT host, workspace_id, verified_at FROM domains WHERE verified_at IS NOT NULL;
ALTER TABLE domains FORCE ROW LEVEL SECURITY;

GRANT SELECT, INSERT, DELETE ON scheduled_changes TO linkforge_tenant;
GRANT SELECT, INSERT ON host_owners TO linkforge_tenant;
GRANT UPDATE (ends_at) ON host_owners TO linkforge_tenant;
GRANT SELECT ON scheduled_changes, host_owners TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON scheduled_changes, host_owners TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['scheduled_changes', 'host_owners'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))', name);
        EXECUTE format('CREATE POLICY resolved ON %I TO linkforge_resolver USING (true)', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
