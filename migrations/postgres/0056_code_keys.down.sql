DROP TRIGGER code_key_released ON links;
DROP FUNCTION code_key_released;
DROP TRIGGER workspace_changed ON workspaces;
CREATE TRIGGER workspace_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url) IS DISTINCT FROM
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url))
    EXECUTE FUNCTION place_changed();
DROP INDEX links_by_code_key;
ALTER TABLE links DROP code_key;
ALTER TABLE workspaces DROP case_sensitive_codes;
