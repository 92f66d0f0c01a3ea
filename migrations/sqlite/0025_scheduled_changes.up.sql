-- Changes of links at instants in the future. A link with some has the soonest instant in its row, so that
-- other links cost nothing.
ALTER TABLE links ADD version_starts_at TEXT;  -- when the newest version took effect; null: updated_at
ALTER TABLE links ADD next_change_at TEXT;     -- maintained by the triggers below
CREATE INDEX links_to_change ON links (next_change_at) WHERE next_change_at IS NOT NULL;

CREATE TABLE scheduled_changes (
    id           TEXT NOT NULL PRIMARY KEY,
    link_id      TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL,
    due_at       TEXT NOT NULL,
    patch        TEXT NOT NULL,  -- JSON, see internal/schedule
    actor_id     TEXT NOT NULL,  -- as in audit_events
    created_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX scheduled_changes_of_link ON scheduled_changes (link_id, due_at, id);

-- Nodes cache the pending states of a link, so each of its scheduled changes is a change of the link.
CREATE TRIGGER change_scheduled AFTER INSERT ON scheduled_changes BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = NEW.link_id) WHERE id = NEW.link_id;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = NEW.link_id;
END;
CREATE TRIGGER scheduled_change_removed AFTER DELETE ON scheduled_changes BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = OLD.link_id) WHERE id = OLD.link_id;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = OLD.link_id;
END;

-- Which workspace had a host, and when.
CREATE TABLE host_owners (
    host         TEXT NOT NULL,  -- canonical
    workspace_id TEXT NOT NULL,
    starts_at    TEXT NOT NULL,
    ends_at      TEXT,  -- the first instant after it; null: it has the host
    PRIMARY KEY (host, starts_at)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX host_owners_now ON host_owners (host) WHERE ends_at IS NULL;
INSERT INTO host_owners (host, workspace_id, starts_at) SELECT host, workspace_id, verified_at FROM domains WHERE verified_at IS NOT NULL;
