DROP TRIGGER link_changed ON links;
CREATE TRIGGER link_changed AFTER UPDATE ON links FOR EACH ROW
    WHEN ((OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS DISTINCT FROM
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.deleted_at, NEW.disabled_at, NEW.purged_at))
    EXECUTE FUNCTION link_changed();
DROP TABLE target_grants;
DROP TABLE link_urls;
ALTER TABLE links DROP routing;
