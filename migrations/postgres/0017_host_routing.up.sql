-- How a domain, and a workspace, answer visitors without a destination, and what new links get.
ALTER TABLE domains ADD root_url TEXT, ADD not_found_url TEXT, ADD ended_url TEXT, ADD favicon_url TEXT,
    ADD indexable BOOLEAN NOT NULL DEFAULT FALSE, ADD apple_app_site_association TEXT, ADD asset_links TEXT;
ALTER TABLE workspaces ADD routing_defaults JSONB, ADD not_found_url TEXT, ADD ended_url TEXT;

-- Named values of campaign parameters, which are copied into links.
CREATE TABLE utm_templates (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT COLLATE "C" NOT NULL,
    name_key     TEXT COLLATE "C" NOT NULL,  -- the name in lower case
    utm          JSONB NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX utm_templates_by_name ON utm_templates (workspace_id, name_key);

DROP TRIGGER workspace_changed ON workspaces;
CREATE TRIGGER workspace_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url) IS DISTINCT FROM
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url))
    EXECUTE FUNCTION place_changed();
DROP TRIGGER domain_changed ON domains;
CREATE TRIGGER domain_changed AFTER UPDATE ON domains FOR EACH ROW
    WHEN ((OLD.verified_at, OLD.root_url, OLD.not_found_url, OLD.ended_url, OLD.favicon_url, OLD.indexable,
            OLD.apple_app_site_association, OLD.asset_links)
        IS DISTINCT FROM
        (NEW.verified_at, NEW.root_url, NEW.not_found_url, NEW.ended_url, NEW.favicon_url, NEW.indexable,
            NEW.apple_app_site_association, NEW.asset_links))
    EXECUTE FUNCTION place_changed();

GRANT SELECT, INSERT, UPDATE, DELETE ON utm_templates TO linkforge_tenant, linkforge_system;
GRANT SELECT ON utm_templates TO linkforge_resolver;
ALTER TABLE utm_templates ENABLE ROW LEVEL SECURITY;
ALTER TABLE utm_templates FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON utm_templates TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY resolved ON utm_templates TO linkforge_resolver USING (true);
CREATE POLICY all_rows ON utm_templates TO linkforge_system USING (true);
