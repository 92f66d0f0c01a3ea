-- Custom codes without regard to case: code_key is the code in lower case, and NULL for other links. It is never removed from
-- a link. A workspace without regard to case stays so.
ALTER TABLE workspaces ADD case_sensitive_codes BOOLEAN NOT NULL DEFAULT true;
ALTER TABLE links ADD code_key TEXT COLLATE "C";
CREATE UNIQUE INDEX links_by_code_key ON links (workspace_id, code_key) WHERE code_key IS NOT NULL;

DROP TRIGGER workspace_changed ON workspaces;
CREATE TRIGGER workspace_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url, OLD.case_sensitive_codes) IS DISTINCT FROM
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url, NEW.case_sensitive_codes))
    EXECUTE FUNCTION place_changed();

-- 'workspace/^key' is the cache entry of a key.
CREATE FUNCTION code_key_released() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/^' || OLD.code_key);
    RETURN NULL;
END $$;
CREATE TRIGGER code_key_released AFTER DELETE ON links FOR EACH ROW WHEN (OLD.code_key IS NOT NULL)
    EXECUTE FUNCTION code_key_released();
