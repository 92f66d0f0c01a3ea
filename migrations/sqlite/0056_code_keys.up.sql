-- Custom codes without regard to case: code_key is the code in lower case, and NULL for other links. It is never removed from
-- a link. A workspace without regard to case stays so.
ALTER TABLE workspaces ADD case_sensitive_codes INTEGER NOT NULL DEFAULT true;
ALTER TABLE links ADD code_key TEXT;
CREATE UNIQUE INDEX links_by_code_key ON links (workspace_id, code_key) WHERE code_key IS NOT NULL;

DROP TRIGGER workspace_changed;
CREATE TRIGGER workspace_changed
    AFTER UPDATE OF hit_quota, deleted_at, purged_at, not_found_url, ended_url, case_sensitive_codes ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url, OLD.case_sensitive_codes) IS NOT
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url, NEW.case_sensitive_codes)
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;

-- 'workspace/^key' is the cache entry of a key.
CREATE TRIGGER code_key_released AFTER DELETE ON links WHEN OLD.code_key IS NOT NULL
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/^' || OLD.code_key);
END;
