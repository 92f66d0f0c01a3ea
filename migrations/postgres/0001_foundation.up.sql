-- What one instance knows of itself, under a name each.
CREATE TABLE instance (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE accounts (
    id            TEXT COLLATE "C" PRIMARY KEY,
    email         TEXT COLLATE "C" NOT NULL UNIQUE,  -- in lower case
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL
);

CREATE TABLE workspaces (
    id         TEXT COLLATE "C" PRIMARY KEY,  -- hashed into codes: never changes
    slug       TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    hit_quota  BIGINT CHECK (hit_quota >= 0),  -- null: the instance's
    link_quota BIGINT CHECK (link_quota >= 0),  -- null: the instance's
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE members (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    account_id   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    role         TEXT COLLATE "C" NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, account_id)
);
CREATE INDEX members_by_account ON members (account_id, workspace_id);

CREATE TABLE links (
    id              TEXT COLLATE "C" PRIMARY KEY,
    workspace_id    TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    code            TEXT COLLATE "C" NOT NULL,
    root_code       TEXT COLLATE "C" UNIQUE,  -- set when the code answers at the root: unique over the instance
    strategy        TEXT COLLATE "C" NOT NULL CHECK (strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM', 'CUSTOM')),
    original_url    TEXT NOT NULL,
    canonical_url   TEXT NOT NULL,
    canonical_hash  BYTEA NOT NULL,  -- SHA-256: a URL itself may be too long for an index
    title           TEXT,
    redirect_status INTEGER NOT NULL CHECK (redirect_status IN (301, 302, 307, 308)),
    starts_at       TIMESTAMPTZ,
    expires_at      TIMESTAMPTZ,
    created_by      TEXT COLLATE "C" REFERENCES accounts (id),
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL,
    deleted_at      TIMESTAMPTZ,
    disabled_at     TIMESTAMPTZ
);
CREATE UNIQUE INDEX links_by_code ON links (workspace_id, code);
-- The same URL in the same workspace is the same link, however many ask at once.
CREATE UNIQUE INDEX links_by_canonical ON links (workspace_id, canonical_hash) WHERE strategy = 'DETERMINISTIC';
CREATE INDEX links_in_workspace ON links (workspace_id, id) WHERE deleted_at IS NULL;

-- How many links a workspace made in a calendar month (UTC).
CREATE TABLE link_usage (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    month        TEXT COLLATE "C" NOT NULL,  -- YYYY-MM
    links        BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, month)
);

-- How far each click log has been taken in: a batch and its log's position are written together, so that a
-- batch that comes twice changes nothing.
CREATE TABLE click_logs (
    id       TEXT COLLATE "C" PRIMARY KEY,
    position BIGINT NOT NULL
);

-- Clicks and rollups outlive their links: no foreign keys.
CREATE TABLE clicks (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    link_id      TEXT COLLATE "C" NOT NULL,
    clicked_at   TIMESTAMPTZ NOT NULL,
    latency_ms   DOUBLE PRECISION NOT NULL
);
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at);

-- Per link and quarter of an hour (UTC); the latency is a running mean and sum of squared deviations.
CREATE TABLE click_buckets (
    link_id      TEXT COLLATE "C" NOT NULL,
    starts_at    TIMESTAMPTZ NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    clicks       BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL,  -- milliseconds
    latency_m2   DOUBLE PRECISION NOT NULL,  -- milliseconds squared
    PRIMARY KEY (link_id, starts_at)
);

-- Per link, since it was made.
CREATE TABLE click_totals (
    link_id      TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    clicks       BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL,
    latency_m2   DOUBLE PRECISION NOT NULL
);
