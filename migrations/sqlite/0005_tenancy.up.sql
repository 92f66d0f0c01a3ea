ALTER TABLE accounts ADD email_verified_at TEXT;
ALTER TABLE accounts ADD deleted_at TEXT;  -- nothing of the person is left then but the id

-- Tokens sent by e-mail, to verify an address or to reset a password. Each is valid once.
CREATE TABLE mailed_tokens (
    hash       BLOB NOT NULL PRIMARY KEY,  -- SHA-256
    account_id TEXT NOT NULL REFERENCES accounts (id),
    purpose    TEXT NOT NULL CHECK (purpose IN ('VERIFY_EMAIL', 'RESET_PASSWORD')),
    expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX mailed_tokens_by_account ON mailed_tokens (account_id, purpose);
CREATE INDEX mailed_tokens_by_age ON mailed_tokens (expires_at);

ALTER TABLE workspaces ADD primary_host TEXT;  -- the verified domain that short URLs are shown with
ALTER TABLE workspaces ADD deleted_at TEXT;
ALTER TABLE workspaces ADD purged_at TEXT;  -- when all was removed but what keeps the slugs
CREATE INDEX workspaces_to_purge ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- Every slug that a workspace has or had: none is ever another's.
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
-- One invitation of an address to a workspace at a time.
CREATE UNIQUE INDEX invitations_pending ON invitations (workspace_id, email) WHERE accepted_at IS NULL;
CREATE INDEX invitations_in_workspace ON invitations (workspace_id, id);
CREATE INDEX invitations_by_email ON invitations (email);
CREATE INDEX invitations_by_age ON invitations (expires_at);

CREATE TABLE api_keys (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,  -- the secret's first characters, by which people tell keys apart
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
    token         TEXT NOT NULL,  -- what the TXT record must say
    created_at    TEXT NOT NULL,
    verified_at   TEXT,
    checked_at    TEXT,  -- when the record was last looked for
    failed_at     TEXT,  -- since when a verified domain's record has been missing
    UNIQUE (workspace_id, host)
) STRICT;
-- Any workspace may claim a host, and one can have proved it.
CREATE UNIQUE INDEX domains_verified ON domains (host) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_in_workspace ON domains (workspace_id, id);

-- Who changed what, and when.
CREATE TABLE audit_events (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    actor_id     TEXT NOT NULL,  -- an account's or an API key's; empty for the server itself
    action       TEXT NOT NULL,
    target_id    TEXT NOT NULL,
    details      TEXT NOT NULL,  -- JSON
    created_at   TEXT NOT NULL
) STRICT;
CREATE INDEX audit_events_in_workspace ON audit_events (workspace_id, id);
CREATE INDEX audit_events_by_target ON audit_events (target_id, id);
CREATE INDEX audit_events_by_actor ON audit_events (actor_id, id);

CREATE VIEW verified_hosts AS SELECT host FROM domains WHERE verified_at IS NOT NULL;
