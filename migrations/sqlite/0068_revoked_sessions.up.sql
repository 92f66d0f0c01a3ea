-- Nodes learn of revoked sessions by the changes, too: by their ids.
CREATE TRIGGER session_revoked AFTER UPDATE OF revoked_at ON sessions
    WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;
