ALTER TABLE workspaces ADD default_strategy TEXT NOT NULL DEFAULT 'DETERMINISTIC' CHECK (default_strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM'));
ALTER TABLE workspaces ADD default_redirect_status INTEGER NOT NULL DEFAULT 302 CHECK (default_redirect_status IN (301, 302, 307, 308));

-- The workspace of links without an owner. It has no members.
INSERT INTO workspaces (id, slug, name, created_at, updated_at)
VALUES ('ws_00000000000000000000000000', 'public', 'Public', '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00');

ALTER TABLE links ADD note TEXT;
ALTER TABLE links ADD archived_at TEXT;
ALTER TABLE links ADD max_clicks INTEGER CHECK (max_clicks > 0);
ALTER TABLE links ADD granted INTEGER NOT NULL DEFAULT 0;  -- redirects granted so far, at most max_clicks
ALTER TABLE links ADD ended_at TEXT;  -- when it was deleted or, set by the clean-up job, when it expired
ALTER TABLE links ADD purged_at TEXT;  -- when all data but the columns that reserve the code was deleted
ALTER TABLE links ADD claim_hash BLOB;  -- SHA-256 of an anonymous link's claim token
ALTER TABLE links ADD title_key TEXT NOT NULL DEFAULT '';  -- the sort key of the title
ALTER TABLE links ADD search TEXT NOT NULL DEFAULT '';  -- title, note, URL and code, normalized for search
ALTER TABLE links ADD destination_status INTEGER;  -- the last HTTP status of the destination
ALTER TABLE links ADD last_checked_at TEXT;
ALTER TABLE links ADD check_at TEXT;  -- when the destination is due for its next check
ALTER TABLE links ADD check_failures INTEGER NOT NULL DEFAULT 0;  -- consecutive

UPDATE links SET title_key = lower(coalesce(title, '')), ended_at = deleted_at, check_at = CASE WHEN deleted_at IS NULL THEN created_at END,
    search = lower(coalesce(title, '') || char(10) || char(10) || original_url || char(10) || code);

DROP INDEX links_in_workspace;
-- Includes the columns of common filters, so that neither skipping nor counting reads the links
-- themselves. SQLite needs purged_at too.
CREATE INDEX links_in_workspace ON links (workspace_id, id, created_at, archived_at, deleted_at, disabled_at, purged_at) WHERE purged_at IS NULL;
CREATE INDEX links_by_title ON links (workspace_id, title_key, id) WHERE purged_at IS NULL;
CREATE UNIQUE INDEX links_by_claim ON links (claim_hash) WHERE claim_hash IS NOT NULL;
CREATE INDEX links_to_end ON links (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX links_to_purge ON links (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_to_check ON links (check_at) WHERE check_at IS NOT NULL;

CREATE TABLE link_tags (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    tag          TEXT NOT NULL,
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, tag, link_id)
) STRICT;
CREATE INDEX link_tags_by_link ON link_tags (link_id, tag);

-- Lists the links of a workspace by clicks.
CREATE INDEX click_totals_by_clicks ON click_totals (workspace_id, clicks, link_id);

-- Stored results of calls with an idempotency key.
CREATE TABLE idempotency_keys (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    actor_id     TEXT NOT NULL,
    name         TEXT NOT NULL,  -- the key of the caller
    input_hash   BLOB NOT NULL,  -- SHA-256 of the input
    answer       TEXT NOT NULL,  -- JSON
    created_at   TEXT NOT NULL,
    PRIMARY KEY (workspace_id, actor_id, name)
) STRICT;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- The node that may run a job, and the time of the next run.
CREATE TABLE leases (
    name    TEXT NOT NULL PRIMARY KEY,
    holder  TEXT NOT NULL,  -- empty when the job does not run
    free_at TEXT NOT NULL,
    due_at  TEXT NOT NULL
) STRICT;

-- Blocked destination hosts, including all their subdomains.
CREATE TABLE blocked_hosts (
    host       TEXT NOT NULL PRIMARY KEY,
    reason     TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- Abuse reports, for the operator.
CREATE TABLE reports (
    id         TEXT NOT NULL PRIMARY KEY,
    link_id    TEXT NOT NULL,
    reason     TEXT NOT NULL CHECK (reason IN ('SPAM', 'PHISHING', 'MALWARE', 'ILLEGAL', 'OTHER')),
    details    TEXT,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX reports_by_link ON reports (link_id, id);

-- Substring search within a workspace. The index refers to links by an explicit number, because
-- VACUUM may change implicit rowids.
CREATE TABLE link_numbers (
    number  INTEGER PRIMARY KEY,
    link_id TEXT NOT NULL UNIQUE REFERENCES links (id) ON DELETE CASCADE
) STRICT;
CREATE VIRTUAL TABLE link_search USING fts5 (search, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1');
INSERT INTO link_numbers (link_id) SELECT id FROM links;
INSERT INTO link_search (rowid, search) SELECT n.number, l.search FROM link_numbers AS n JOIN links AS l ON l.id = n.link_id;

CREATE TRIGGER links_inserted AFTER INSERT ON links BEGIN
    INSERT INTO link_numbers (link_id) VALUES (new.id);
    INSERT INTO link_search (rowid, search) SELECT number, new.search FROM link_numbers WHERE link_id = new.id;
END;
CREATE TRIGGER links_updated AFTER UPDATE OF search ON links WHEN new.search <> old.search BEGIN
    UPDATE link_search SET search = new.search WHERE rowid = (SELECT number FROM link_numbers WHERE link_id = new.id);
END;
CREATE TRIGGER links_deleted BEFORE DELETE ON links BEGIN
    DELETE FROM link_search WHERE rowid = (SELECT number FROM link_numbers WHERE link_id = old.id);
END;
