-- Entries that every node removes from its cache: a link ('workspace/code'), a workspace, a slug
-- ('~slug') or a host ('@host'). The statement that makes the change also writes the row, and old
-- rows are deleted.
CREATE TABLE changes (
    id         INTEGER NOT NULL PRIMARY KEY,  -- the last row stays, so that no number comes again
    subject    TEXT NOT NULL,
    changed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

CREATE TRIGGER link_changed AFTER UPDATE OF workspace_id, code, root_code, original_url, redirect_status, starts_at, expires_at, max_clicks,
        deleted_at, disabled_at, purged_at ON links
    WHEN (OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS NOT
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.deleted_at, NEW.disabled_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    INSERT INTO changes (subject) SELECT NEW.workspace_id || '/' || NEW.code
        WHERE (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code);
END;
CREATE TRIGGER link_removed AFTER DELETE ON links BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
END;
CREATE TRIGGER workspace_changed AFTER UPDATE OF hit_quota, deleted_at, purged_at ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at) IS NOT (NEW.hit_quota, NEW.deleted_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (NEW.id);
END;
CREATE TRIGGER slug_taken AFTER INSERT ON slugs BEGIN
    INSERT INTO changes (subject) VALUES ('~' || NEW.slug);
END;
CREATE TRIGGER domain_changed AFTER UPDATE OF verified_at ON domains WHEN OLD.verified_at IS NOT NEW.verified_at BEGIN
    INSERT INTO changes (subject) VALUES ('@' || NEW.host);
END;
CREATE TRIGGER domain_removed AFTER DELETE ON domains WHEN OLD.verified_at IS NOT NULL BEGIN
    INSERT INTO changes (subject) VALUES ('@' || OLD.host);
END;

-- Hits of a link's month that were granted while Redis was away, and all that was known of when the first of them was.
CREATE TABLE hit_usage (
    link_id    TEXT NOT NULL,
    month      TEXT NOT NULL,  -- YYYY-MM
    hits       INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (link_id, month)
) STRICT, WITHOUT ROWID;
CREATE INDEX hit_usage_by_change ON hit_usage (changed_at);

-- Redirects that were leased to a process: from a link's max_clicks or, with a month, from its
-- hits. The statement that deletes the row returns the unused ones: by the process itself, or by
-- the process that adopts its click log.
CREATE TABLE click_leases (
    log_id  TEXT NOT NULL,  -- the process's click log
    number  INTEGER NOT NULL,
    link_id TEXT NOT NULL,
    month   TEXT NOT NULL,  -- empty for max_clicks
    hits    INTEGER NOT NULL,  -- what was granted, which may be less than the log says was wanted
    PRIMARY KEY (log_id, number)
) STRICT, WITHOUT ROWID;
