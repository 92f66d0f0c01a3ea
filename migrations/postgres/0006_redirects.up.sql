-- Entries that every node removes from its cache: a link ('workspace/code'), a workspace, a slug
-- ('~slug') or a host ('@host'). The statement that makes the change also writes the row, and old
-- rows are deleted.
CREATE TABLE changes (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject    TEXT COLLATE "C" NOT NULL,
    xid        BIGINT NOT NULL DEFAULT pg_current_xact_id()::TEXT::BIGINT,  -- ids are not committed in their order: see internal/link/feed.go
    changed_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX changes_by_xid ON changes (xid);

CREATE FUNCTION link_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    IF TG_OP = 'UPDATE' AND (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code) THEN
        INSERT INTO changes (subject) VALUES (NEW.workspace_id || '/' || NEW.code);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER link_changed AFTER UPDATE ON links FOR EACH ROW
    WHEN ((OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at, OLD.expires_at, OLD.max_clicks,
            OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS DISTINCT FROM
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at, NEW.expires_at, NEW.max_clicks,
            NEW.deleted_at, NEW.disabled_at, NEW.purged_at))
    EXECUTE FUNCTION link_changed();
CREATE TRIGGER link_removed AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION link_changed();

CREATE FUNCTION place_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'workspaces' THEN
        INSERT INTO changes (subject) VALUES (NEW.id);
    ELSIF TG_TABLE_NAME = 'slugs' THEN
        INSERT INTO changes (subject) VALUES ('~' || NEW.slug);
    ELSE
        INSERT INTO changes (subject) VALUES ('@' || COALESCE(NEW.host, OLD.host));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER workspace_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at) IS DISTINCT FROM (NEW.hit_quota, NEW.deleted_at, NEW.purged_at))
    EXECUTE FUNCTION place_changed();
CREATE TRIGGER slug_taken AFTER INSERT ON slugs FOR EACH ROW EXECUTE FUNCTION place_changed();
CREATE TRIGGER domain_changed AFTER UPDATE ON domains FOR EACH ROW
    WHEN (OLD.verified_at IS DISTINCT FROM NEW.verified_at) EXECUTE FUNCTION place_changed();
CREATE TRIGGER domain_removed AFTER DELETE ON domains FOR EACH ROW
    WHEN (OLD.verified_at IS NOT NULL) EXECUTE FUNCTION place_changed();

-- Hits of a link's month that were granted while Redis was away, and all that was known of when the first of them was.
CREATE TABLE hit_usage (
    link_id    TEXT COLLATE "C" NOT NULL,
    month      TEXT COLLATE "C" NOT NULL,  -- YYYY-MM
    hits       BIGINT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (link_id, month)
);
CREATE INDEX hit_usage_by_change ON hit_usage (changed_at);

-- Redirects that were leased to a process: from a link's max_clicks or, with a month, from its
-- hits. The statement that deletes the row returns the unused ones: by the process itself, or by
-- the process that adopts its click log.
CREATE TABLE click_leases (
    log_id  TEXT COLLATE "C" NOT NULL,  -- the process's click log
    number  BIGINT NOT NULL,
    link_id TEXT COLLATE "C" NOT NULL,
    month   TEXT COLLATE "C" NOT NULL,  -- empty for max_clicks
    hits    BIGINT NOT NULL,  -- what was granted, which may be less than the log says was wanted
    PRIMARY KEY (log_id, number)
);

GRANT SELECT ON changes TO linkforge_resolver, linkforge_system;
GRANT INSERT (subject) ON changes TO linkforge_tenant, linkforge_system;
GRANT DELETE ON changes TO linkforge_system;
GRANT SELECT ON hit_usage TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON hit_usage, click_leases TO linkforge_system;
REVOKE UPDATE (granted) ON links FROM linkforge_resolver;  -- what is granted is a lease's, which the resolver does not see
