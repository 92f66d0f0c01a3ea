ALTER TABLE workspaces DROP COLUMN require_second_factor;
DROP TABLE sso_identities;
DROP TABLE recovery_codes;
DROP TABLE totp;
ALTER TABLE sessions DROP COLUMN methods;
ALTER TABLE sessions DROP COLUMN authenticated_at;
ALTER TABLE sessions DROP COLUMN ends_at;
CREATE TABLE mailed_tokens (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256
    account_id TEXT NOT NULL REFERENCES accounts (id),
    purpose    TEXT NOT NULL CHECK (purpose IN ('VERIFY_EMAIL', 'RESET_PASSWORD')),
    expires_at TEXT NOT NULL
) STRICT;
INSERT INTO mailed_tokens SELECT hash, account_id, kind, expires_at FROM auth_flows WHERE kind IN ('VERIFY_EMAIL', 'RESET_PASSWORD');
DROP TABLE auth_flows;
CREATE INDEX mailed_tokens_by_account ON mailed_tokens (account_id, purpose);
CREATE INDEX mailed_tokens_by_age ON mailed_tokens (expires_at);
