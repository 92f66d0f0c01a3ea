-- What an account has begun and not ended: mailed tokens, challenges of logins, and logins at an identity provider. Each is consumed once.
CREATE TABLE auth_flows (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256 of the token
    kind       TEXT NOT NULL,
    account_id TEXT REFERENCES accounts (id),
    data       TEXT NOT NULL DEFAULT '',
    tries      INTEGER NOT NULL DEFAULT 0,
    expires_at TEXT NOT NULL
) STRICT;
INSERT INTO auth_flows (hash, kind, account_id, expires_at) SELECT hash, purpose, account_id, expires_at FROM mailed_tokens;
DROP TABLE mailed_tokens;
CREATE INDEX auth_flows_by_account ON auth_flows (account_id, kind);
CREATE INDEX auth_flows_by_age ON auth_flows (expires_at);

-- methods are those of AuthMethod, separated by spaces. A session ends at ends_at, even if it is refreshed.
ALTER TABLE sessions ADD methods TEXT NOT NULL DEFAULT 'PASSWORD';
ALTER TABLE sessions ADD authenticated_at TEXT;
ALTER TABLE sessions ADD ends_at TEXT;
UPDATE sessions SET authenticated_at = created_at;

-- Authenticator apps. One without enrolled_at waits for its first code.
CREATE TABLE totp (
    account_id  TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    secret      BLOB NOT NULL,  -- sealed
    last_step   INTEGER NOT NULL DEFAULT 0,  -- the step of the last code: each is valid once
    created_at  TEXT NOT NULL,
    enrolled_at TEXT
) STRICT;
CREATE TABLE recovery_codes (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256
    account_id TEXT NOT NULL REFERENCES accounts (id)
) STRICT;
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);

CREATE TABLE sso_identities (
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    created_at TEXT NOT NULL,
    used_at    TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT;
CREATE INDEX sso_identities_by_account ON sso_identities (account_id);

ALTER TABLE workspaces ADD require_second_factor INTEGER NOT NULL DEFAULT FALSE;
