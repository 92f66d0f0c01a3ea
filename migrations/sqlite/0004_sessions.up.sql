-- Sessions. Each continues by refresh tokens that are valid once.
CREATE TABLE sessions (
    id         TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    agent      TEXT NOT NULL,  -- the program that logged in, as it calls itself
    created_at TEXT NOT NULL,
    used_at    TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
) STRICT;
CREATE INDEX sessions_by_account ON sessions (account_id, id);
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE refresh_tokens (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    spent_at   TEXT
) STRICT;
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id);
