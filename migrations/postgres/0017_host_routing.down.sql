DROP TRIGGER domain_changed ON domains;
CREATE TRIGGER domain_changed AFTER UPDATE ON domains FOR EACH ROW
    WHEN (OLD.verified_at IS DISTINCT FROM NEW.verified_at) EXECUTE FUNCTION place_changed();
DROP TRIGGER workspace_changed ON workspaces;
CREATE TRIGGER workspace_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at) IS DISTINCT FROM (NEW.hit_quota, NEW.deleted_at, NEW.purged_at))
    EXECUTE FUNCTION place_changed();
DROP TABLE utm_templates;
ALTER TABLE workspaces DROP routing_defaults, DROP not_found_url, DROP ended_url;
ALTER TABLE domains DROP root_url, DROP not_found_url, DROP ended_url, DROP favicon_url, DROP indexable,
    DROP apple_app_site_association, DROP asset_links;
