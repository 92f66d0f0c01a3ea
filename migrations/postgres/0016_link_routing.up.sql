-- How a link answers visitors, beyond its URL, times and status: JSON, see internal/routing/value.go.
-- Null means a plain link.
ALTER TABLE links ADD routing JSONB;

-- The URLs of routings: blocking and checks of destinations find them here. The link's own URL is in
-- links.
CREATE TABLE link_urls (
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    field        TEXT COLLATE "C" NOT NULL,  -- as in rules.0.targets.1.url
    workspace_id TEXT COLLATE "C" NOT NULL,
    host         TEXT COLLATE "C" NOT NULL,  -- canonical
    url          TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (link_id, field)
);
CREATE INDEX link_urls_by_host ON link_urls (host, link_id);

-- The redirects that targets with a maximum have granted. A row stays while its target does, so that
-- a raised maximum keeps the count.
CREATE TABLE target_grants (
    target_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL,
    max_clicks   BIGINT,  -- null: no maximum any more
    granted      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX target_grants_by_link ON target_grants (link_id);

DROP TRIGGER link_changed ON links;
CREATE TRIGGER link_changed AFTER UPDATE ON links FOR EACH ROW
    WHEN ((OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.routing, OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS DISTINCT FROM
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.routing, NEW.deleted_at, NEW.disabled_at, NEW.purged_at))
    EXECUTE FUNCTION link_changed();

GRANT SELECT, INSERT, UPDATE, DELETE ON link_urls TO linkforge_tenant;
GRANT SELECT, INSERT, DELETE ON target_grants TO linkforge_tenant;
GRANT UPDATE (max_clicks, workspace_id) ON target_grants TO linkforge_tenant;
GRANT SELECT ON target_grants TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON link_urls, target_grants TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['link_urls', 'target_grants'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
CREATE POLICY resolved ON target_grants TO linkforge_resolver USING (true);
