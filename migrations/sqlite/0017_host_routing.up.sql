-- How a domain, and a workspace, answer visitors without a destination, and what new links get.
ALTER TABLE domains ADD root_url TEXT;
ALTER TABLE domains ADD not_found_url TEXT;
ALTER TABLE domains ADD ended_url TEXT;
ALTER TABLE domains ADD favicon_url TEXT;
ALTER TABLE domains ADD indexable INTEGER NOT NULL DEFAULT FALSE;
ALTER TABLE domains ADD apple_app_site_association TEXT;
ALTER TABLE domains ADD asset_links TEXT;
ALTER TABLE workspaces ADD routing_defaults TEXT;
ALTER TABLE workspaces ADD not_found_url TEXT;
ALTER TABLE workspaces ADD ended_url TEXT;

-- Named values of campaign parameters, which are copied into links.
CREATE TABLE utm_templates (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    name_key     TEXT NOT NULL,  -- the name in lower case
    utm          TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX utm_templates_by_name ON utm_templates (workspace_id, name_key);

DROP TRIGGER workspace_changed;
CREATE TRIGGER workspace_changed AFTER UPDATE OF hit_quota, deleted_at, purged_at, not_found_url, ended_url ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url) IS NOT
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url)
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;
DROP TRIGGER domain_changed;
CREATE TRIGGER domain_changed AFTER UPDATE OF verified_at, root_url, not_found_url, ended_url, favicon_url, indexable,
        apple_app_site_association, asset_links ON domains
    WHEN (OLD.verified_at, OLD.root_url, OLD.not_found_url, OLD.ended_url, OLD.favicon_url, OLD.indexable,
            OLD.apple_app_site_association, OLD.asset_links)
        IS NOT
        (NEW.verified_at, NEW.root_url, NEW.not_found_url, NEW.ended_url, NEW.favicon_url, NEW.indexable,
            NEW.apple_app_site_association, NEW.asset_links)
BEGIN
    INSERT INTO changes (subject) VALUES ('@' || NEW.host);
END;
