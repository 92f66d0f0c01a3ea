-- What one instance knows of itself, under a name each.
CREATE TABLE instance (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE accounts (
    id            TEXT NOT NULL PRIMARY KEY,
    email         TEXT NOT NULL UNIQUE,  -- in lower case
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL
) STRICT;

CREATE TABLE workspaces (
    id         TEXT NOT NULL PRIMARY KEY,  -- hashed into codes: never changes
    slug       TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    hit_quota  INTEGER CHECK (hit_quota >= 0),  -- null: the instance's
    link_quota INTEGER CHECK (link_quota >= 0),  -- null: the instance's
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE members (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    account_id   TEXT NOT NULL REFERENCES accounts (id),
    role         TEXT NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    created_at   TEXT NOT NULL,
    PRIMARY KEY (workspace_id, account_id)
) STRICT;
CREATE INDEX members_by_account ON members (account_id, workspace_id);

CREATE TABLE links (
    id              TEXT NOT NULL PRIMARY KEY,
    workspace_id    TEXT NOT NULL REFERENCES workspaces (id),
    code            TEXT NOT NULL,
    root_code       TEXT UNIQUE,  -- set when the code answers at the root: unique over the instance
    strategy        TEXT NOT NULL CHECK (strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM', 'CUSTOM')),
    original_url    TEXT NOT NULL,
    canonical_url   TEXT NOT NULL,
    canonical_hash  BLOB NOT NULL,  -- SHA-256: a URL itself may be too long for an index
    title           TEXT,
    redirect_status INTEGER NOT NULL CHECK (redirect_status IN (301, 302, 307, 308)),
    starts_at       TEXT,
    expires_at      TEXT,
    created_by      TEXT REFERENCES accounts (id),
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL,
    deleted_at      TEXT,
    disabled_at     TEXT
) STRICT;
CREATE UNIQUE INDEX links_by_code ON links (workspace_id, code);
-- The same URL in the same workspace is the same link, however many ask at once.
CREATE UNIQUE INDEX links_by_canonical ON links (workspace_id, canonical_hash) WHERE strategy = 'DETERMINISTIC';
CREATE INDEX links_in_workspace ON links (workspace_id, id) WHERE deleted_at IS NULL;

-- How many links a workspace made in a calendar month (UTC).
CREATE TABLE link_usage (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    month        TEXT NOT NULL,  -- YYYY-MM
    links        INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, month)
) STRICT;

-- How far each click log has been taken in: a batch and its log's position are written together, so that a
-- batch that comes twice changes nothing.
CREATE TABLE click_logs (
    id       TEXT NOT NULL PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT;

-- Clicks and rollups outlive their links: no foreign keys.
CREATE TABLE clicks (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    link_id      TEXT NOT NULL,
    clicked_at   TEXT NOT NULL,
    latency_ms   REAL NOT NULL
) STRICT;
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at);

-- Per link and quarter of an hour (UTC); the latency is a running mean and sum of squared deviations.
CREATE TABLE click_buckets (
    link_id      TEXT NOT NULL,
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    latency_mean REAL NOT NULL,  -- milliseconds
    latency_m2   REAL NOT NULL,  -- milliseconds squared
    PRIMARY KEY (link_id, starts_at)
) STRICT;

-- Per link, since it was made.
CREATE TABLE click_totals (
    link_id      TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    latency_mean REAL NOT NULL,
    latency_m2   REAL NOT NULL
) STRICT;
