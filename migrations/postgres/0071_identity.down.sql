ALTER TABLE workspaces DROP COLUMN require_second_factor;
DROP TABLE sso_identities;
DROP TABLE recovery_codes;
DROP TABLE totp;
ALTER TABLE sessions DROP COLUMN methods, DROP COLUMN authenticated_at, DROP COLUMN ends_at;
CREATE TABLE mailed_tokens (
    hash       BYTEA PRIMARY KEY,  -- SHA-256
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    purpose    TEXT COLLATE "C" NOT NULL CHECK (purpose IN ('VERIFY_EMAIL', 'RESET_PASSWORD')),
    expires_at TIMESTAMPTZ NOT NULL
);
INSERT INTO mailed_tokens SELECT hash, account_id, kind, expires_at FROM auth_flows WHERE kind IN ('VERIFY_EMAIL', 'RESET_PASSWORD');
DROP TABLE auth_flows;
CREATE INDEX mailed_tokens_by_account ON mailed_tokens (account_id, purpose);
CREATE INDEX mailed_tokens_by_age ON mailed_tokens (expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON mailed_tokens TO linkforge_tenant, linkforge_system;
