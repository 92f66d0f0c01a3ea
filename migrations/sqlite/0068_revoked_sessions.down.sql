DROP TRIGGER session_revoked;
