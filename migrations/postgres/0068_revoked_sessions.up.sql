-- Nodes learn of revoked sessions by the changes, too: by their ids.
CREATE FUNCTION session_revoked() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER session_revoked AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION session_revoked();
