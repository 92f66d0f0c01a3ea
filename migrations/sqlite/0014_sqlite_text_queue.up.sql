-- The texts of links are indexed in the background: a transaction that writes large texts does not
-- keep the other writers waiting. Package linklist moves texts from the queue to link_search, and
-- searches both.
CREATE TABLE link_text_queue (
    number       INTEGER NOT NULL PRIMARY KEY,
    link_id      TEXT NOT NULL,
    workspace_id TEXT NOT NULL
) STRICT;
CREATE INDEX link_text_queue_in_workspace ON link_text_queue (workspace_id, link_id);

DROP TRIGGER links_inserted;
DROP TRIGGER links_updated;
DROP TRIGGER links_deleted;

CREATE TRIGGER link_text_created AFTER INSERT ON links BEGIN
    INSERT INTO link_text_queue (link_id, workspace_id) VALUES (new.id, new.workspace_id);
END;
CREATE TRIGGER link_text_changed AFTER UPDATE OF search, workspace_id ON links
WHEN new.search <> old.search OR new.workspace_id <> old.workspace_id BEGIN
    INSERT INTO link_text_queue (link_id, workspace_id) VALUES (new.id, new.workspace_id);
END;
CREATE TRIGGER link_text_deleted BEFORE DELETE ON links BEGIN
    DELETE FROM link_search WHERE rowid = (SELECT number FROM link_numbers WHERE link_id = old.id);
    DELETE FROM link_text_queue WHERE workspace_id = old.workspace_id AND link_id = old.id;
END;
