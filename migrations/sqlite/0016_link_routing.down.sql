DROP TRIGGER link_changed;
CREATE TRIGGER link_changed AFTER UPDATE OF workspace_id, code, root_code, original_url, redirect_status, starts_at, expires_at, max_clicks,
        deleted_at, disabled_at, purged_at ON links
    WHEN (OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS NOT
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.deleted_at, NEW.disabled_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    INSERT INTO changes (subject) SELECT NEW.workspace_id || '/' || NEW.code
        WHERE (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code);
END;
DROP TABLE target_grants;
DROP TABLE link_urls;
ALTER TABLE links DROP routing;
