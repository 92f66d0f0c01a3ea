DROP TRIGGER code_key_released;
DROP TRIGGER workspace_changed;
CREATE TRIGGER workspace_changed AFTER UPDATE OF hit_quota, deleted_at, purged_at, not_found_url, ended_url ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url) IS NOT
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url)
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;
DROP INDEX links_by_code_key;
ALTER TABLE links DROP code_key;
ALTER TABLE workspaces DROP case_sensitive_codes;
