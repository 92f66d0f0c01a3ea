-- Sessions. Each continues by refresh tokens that are valid once.
CREATE TABLE sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    agent      TEXT NOT NULL,  -- the program that logged in, as it calls itself
    created_at TIMESTAMPTZ NOT NULL,
    used_at    TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ
);
CREATE INDEX sessions_by_account ON sessions (account_id, id);
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE refresh_tokens (
    hash       BYTEA PRIMARY KEY,  -- SHA-256
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    spent_at   TIMESTAMPTZ
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id);
