ALTER TABLE accounts ADD email_verified_at TEXT;
ALTER TABLE accounts ADD deleted_at TEXT;  -- all personal data is deleted then; the id remains

-- Tokens sent by e-mail, to verify an address or to reset a password. Each is valid once.
CREATE TABLE mailed_tokens (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256
    account_id TEXT NOT NULL REFERENCES accounts (id),
    purpose    TEXT NOT NULL CHECK (purpose IN ('VERIFY_EMAIL', 'RESET_PASSWORD')),
    expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX mailed_tokens_by_account ON mailed_tokens (account_id, purpose);
CREATE INDEX mailed_tokens_by_age ON mailed_tokens (expires_at);

ALTER TABLE workspaces ADD primary_host TEXT;  -- the verified domain of displayed short URLs
ALTER TABLE workspaces ADD deleted_at TEXT;
ALTER TABLE workspaces ADD purged_at TEXT;  -- when all data but the slugs was deleted
CREATE INDEX workspaces_to_purge ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- All current and former slugs of workspaces. A slug is never reused by another workspace.
CREATE TABLE slugs (
    slug         TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    created_at   TEXT NOT NULL
) STRICT;
CREATE INDEX slugs_by_workspace ON slugs (workspace_id);
INSERT INTO slugs (slug, workspace_id, created_at) SELECT slug, id, created_at FROM workspaces;

CREATE TABLE invitations (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    email        TEXT NOT NULL,  -- in lower case
    role         TEXT NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    token_hash   BLOB NOT NULL UNIQUE,  -- SHA-256
    invited_by   TEXT NOT NULL REFERENCES accounts (id),
    created_at   TEXT NOT NULL,
    expires_at   TEXT NOT NULL,
    accepted_at  TEXT,
    accepted_by  TEXT REFERENCES accounts (id)
) STRICT;
-- At most one pending invitation per address and workspace.
CREATE UNIQUE INDEX invitations_pending ON invitations (workspace_id, email) WHERE accepted_at IS NULL;
CREATE INDEX invitations_in_workspace ON invitations (workspace_id, id);
CREATE INDEX invitations_by_email ON invitations (email);
CREATE INDEX invitations_by_age ON invitations (expires_at);

CREATE TABLE api_keys (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,  -- the first characters of the secret, which identify the key to users
    hash         BLOB NOT NULL UNIQUE,  -- SHA-256 of the secret
    scopes       TEXT NOT NULL,  -- separated by spaces
    created_by   TEXT NOT NULL REFERENCES accounts (id),
    created_at   TEXT NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT,
    revoked_at   TEXT
) STRICT;
CREATE INDEX api_keys_in_workspace ON api_keys (workspace_id, id);

CREATE TABLE domains (
    id            TEXT NOT NULL PRIMARY KEY,
    workspace_id  TEXT NOT NULL REFERENCES workspaces (id),
    host          TEXT NOT NULL,  -- in canonical form
    token         TEXT NOT NULL,  -- the required value of the TXT record
    created_at    TEXT NOT NULL,
    verified_at   TEXT,
    checked_at    TEXT,  -- the last lookup of the TXT record
    failed_at     TEXT,  -- since when the TXT record of a verified domain has been missing
    UNIQUE (workspace_id, host)
) STRICT;
-- Any workspace may add a host; at most one workspace can have it verified.
CREATE UNIQUE INDEX domains_verified ON domains (host) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_in_workspace ON domains (workspace_id, id);

-- The audit log: actor, action, object and time of each change.
CREATE TABLE audit_events (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    actor_id     TEXT NOT NULL,  -- the id of an account or API key; empty for the server itself
    action       TEXT NOT NULL,
    target_id    TEXT NOT NULL,
    details      TEXT NOT NULL,  -- JSON
    created_at   TEXT NOT NULL
) STRICT;
CREATE INDEX audit_events_in_workspace ON audit_events (workspace_id, id);
CREATE INDEX audit_events_by_target ON audit_events (target_id, id);
CREATE INDEX audit_events_by_actor ON audit_events (actor_id, id);

CREATE VIEW verified_hosts AS SELECT host FROM domains WHERE verified_at IS NOT NULL;
