-- How a link answers visitors, beyond its URL, times and status: JSON, see internal/routing/value.go.
-- Null means a plain link.
ALTER TABLE links ADD routing TEXT;

-- The URLs of routings: blocking and checks of destinations find them here. The link's own URL is in
-- links.
CREATE TABLE link_urls (
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    field        TEXT NOT NULL,  -- as in rules.0.targets.1.url
    workspace_id TEXT NOT NULL,
    host         TEXT NOT NULL,  -- canonical
    url          TEXT NOT NULL,
    PRIMARY KEY (link_id, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_urls_by_host ON link_urls (host, link_id);

-- The redirects that targets with a maximum have granted. A row stays while its target does, so that
-- a raised maximum keeps the count.
CREATE TABLE target_grants (
    target_id    TEXT NOT NULL PRIMARY KEY,
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL,
    max_clicks   INTEGER,  -- null: no maximum any more
    granted      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX target_grants_by_link ON target_grants (link_id);

DROP TRIGGER link_changed;
CREATE TRIGGER link_changed AFTER UPDATE OF workspace_id, code, root_code, original_url, redirect_status, starts_at, expires_at, max_clicks,
        routing, deleted_at, disabled_at, purged_at ON links
    WHEN (OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.routing, OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS NOT
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.routing, NEW.deleted_at, NEW.disabled_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    INSERT INTO changes (subject) SELECT NEW.workspace_id || '/' || NEW.code
        WHERE (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code);
END;
