DROP TRIGGER domain_changed;
CREATE TRIGGER domain_changed AFTER UPDATE OF verified_at ON domains WHEN OLD.verified_at IS NOT NEW.verified_at BEGIN
    INSERT INTO changes (subject) VALUES ('@' || NEW.host);
END;
DROP TRIGGER workspace_changed;
CREATE TRIGGER workspace_changed AFTER UPDATE OF hit_quota, deleted_at, purged_at ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at) IS NOT (NEW.hit_quota, NEW.deleted_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;
DROP TABLE utm_templates;
ALTER TABLE workspaces DROP ended_url;
ALTER TABLE workspaces DROP not_found_url;
ALTER TABLE workspaces DROP routing_defaults;
ALTER TABLE domains DROP asset_links;
ALTER TABLE domains DROP apple_app_site_association;
ALTER TABLE domains DROP indexable;
ALTER TABLE domains DROP favicon_url;
ALTER TABLE domains DROP ended_url;
ALTER TABLE domains DROP not_found_url;
ALTER TABLE domains DROP root_url;
