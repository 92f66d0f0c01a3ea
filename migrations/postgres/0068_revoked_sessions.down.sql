DROP TRIGGER session_revoked ON sessions;
DROP FUNCTION session_revoked;
