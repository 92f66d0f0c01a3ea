-- Substring search within a workspace. Both extensions are part of PostgreSQL and trusted: the owner
-- of the database may create them.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;

ALTER TABLE workspaces
    ADD default_strategy        TEXT COLLATE "C" NOT NULL DEFAULT 'DETERMINISTIC' CHECK (default_strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM')),
    ADD default_redirect_status INTEGER NOT NULL DEFAULT 302 CHECK (default_redirect_status IN (301, 302, 307, 308));

-- The workspace of links without an owner. It has no members.
INSERT INTO workspaces (id, slug, name, created_at, updated_at)
VALUES ('ws_00000000000000000000000000', 'public', 'Public', '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00');

ALTER TABLE links
    ADD note               TEXT,
    ADD archived_at        TIMESTAMPTZ,
    ADD max_clicks         BIGINT CHECK (max_clicks > 0),
    ADD granted            BIGINT NOT NULL DEFAULT 0,  -- redirects granted so far, at most max_clicks
    ADD ended_at           TIMESTAMPTZ,  -- when it was deleted or, set by the clean-up job, when it expired
    ADD purged_at          TIMESTAMPTZ,  -- when all data but the columns that reserve the code was deleted
    ADD claim_hash         BYTEA,  -- SHA-256 of an anonymous link's claim token
    ADD title_key          TEXT COLLATE "C" NOT NULL DEFAULT '',  -- the sort key of the title
    ADD search             TEXT COLLATE "C" NOT NULL DEFAULT '',  -- title, note, URL and code, normalized for search
    ADD destination_status INTEGER,  -- the last HTTP status of the destination
    ADD last_checked_at    TIMESTAMPTZ,
    ADD check_at           TIMESTAMPTZ,  -- when the destination is due for its next check
    ADD check_failures     INTEGER NOT NULL DEFAULT 0;  -- consecutive

UPDATE links SET title_key = lower(coalesce(title, '')), ended_at = deleted_at, check_at = CASE WHEN deleted_at IS NULL THEN created_at END,
    search = lower(concat_ws(E'\n', coalesce(title, ''), '', original_url, code));

DROP INDEX links_in_workspace;
-- Includes the columns of common filters, so that neither skipping nor counting reads the links
-- themselves. SQLite needs purged_at too.
CREATE INDEX links_in_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at) WHERE purged_at IS NULL;
CREATE INDEX links_by_title ON links (workspace_id, title_key, id) WHERE purged_at IS NULL;
CREATE UNIQUE INDEX links_by_claim ON links (claim_hash) WHERE claim_hash IS NOT NULL;
CREATE INDEX links_to_end ON links (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX links_to_purge ON links (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_to_check ON links (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX links_by_search ON links USING gin (workspace_id, search gin_trgm_ops) WHERE purged_at IS NULL;

CREATE TABLE link_tags (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    tag          TEXT COLLATE "C" NOT NULL,
    link_id      TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, tag, link_id)
);
CREATE INDEX link_tags_by_link ON link_tags (link_id, tag);

-- Lists the links of a workspace by clicks.
CREATE INDEX click_totals_by_clicks ON click_totals (workspace_id, clicks, link_id);

-- Stored results of calls with an idempotency key.
CREATE TABLE idempotency_keys (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    actor_id     TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,  -- the key of the caller
    input_hash   BYTEA NOT NULL,  -- SHA-256 of the input
    answer       TEXT NOT NULL,  -- JSON
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, actor_id, name)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- The node that may run a job, and the time of the next run.
CREATE TABLE leases (
    name    TEXT COLLATE "C" PRIMARY KEY,
    holder  TEXT NOT NULL,  -- empty when the job does not run
    free_at TIMESTAMPTZ NOT NULL,
    due_at  TIMESTAMPTZ NOT NULL
);

-- Blocked destination hosts, including all their subdomains.
CREATE TABLE blocked_hosts (
    host       TEXT COLLATE "C" PRIMARY KEY,
    reason     TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

-- Abuse reports, for the operator.
CREATE TABLE reports (
    id         TEXT COLLATE "C" PRIMARY KEY,
    link_id    TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL CHECK (reason IN ('SPAM', 'PHISHING', 'MALWARE', 'ILLEGAL', 'OTHER')),
    details    TEXT,
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX reports_by_link ON reports (link_id, id);
