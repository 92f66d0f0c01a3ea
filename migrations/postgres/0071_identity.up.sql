-- What an account has begun and not ended: mailed tokens, challenges of logins, and logins at an identity provider. Each is consumed once.
CREATE TABLE auth_flows (
    hash       BYTEA PRIMARY KEY,  -- SHA-256 of the token
    kind       TEXT COLLATE "C" NOT NULL,
    account_id TEXT COLLATE "C" REFERENCES accounts (id),
    data       TEXT NOT NULL DEFAULT '',
    tries      INTEGER NOT NULL DEFAULT 0,
    expires_at TIMESTAMPTZ NOT NULL
);
INSERT INTO auth_flows (hash, kind, account_id, expires_at) SELECT hash, purpose, account_id, expires_at FROM mailed_tokens;
DROP TABLE mailed_tokens;
CREATE INDEX auth_flows_by_account ON auth_flows (account_id, kind);
CREATE INDEX auth_flows_by_age ON auth_flows (expires_at);

-- methods are those of AuthMethod, separated by spaces. A session ends at ends_at, even if it is refreshed.
ALTER TABLE sessions
    ADD methods          TEXT COLLATE "C" NOT NULL DEFAULT 'PASSWORD',
    ADD authenticated_at TIMESTAMPTZ,
    ADD ends_at          TIMESTAMPTZ;
UPDATE sessions SET authenticated_at = created_at;

-- Authenticator apps. One without enrolled_at waits for its first code.
CREATE TABLE totp (
    account_id  TEXT COLLATE "C" PRIMARY KEY REFERENCES accounts (id),
    secret      BYTEA NOT NULL,  -- sealed
    last_step   BIGINT NOT NULL DEFAULT 0,  -- the step of the last code: each is valid once
    created_at  TIMESTAMPTZ NOT NULL,
    enrolled_at TIMESTAMPTZ
);
CREATE TABLE recovery_codes (
    hash       BYTEA PRIMARY KEY,  -- SHA-256
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id)
);
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);

CREATE TABLE sso_identities (
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    created_at TIMESTAMPTZ NOT NULL,
    used_at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX sso_identities_by_account ON sso_identities (account_id);

ALTER TABLE workspaces ADD require_second_factor BOOLEAN NOT NULL DEFAULT FALSE;

GRANT SELECT, INSERT, UPDATE, DELETE ON auth_flows, totp, recovery_codes, sso_identities TO linkforge_tenant, linkforge_system;
