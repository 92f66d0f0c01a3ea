DROP TRIGGER link_text_created;
DROP TRIGGER link_text_changed;
DROP TRIGGER link_text_deleted;

INSERT OR IGNORE INTO link_numbers (link_id) SELECT id FROM links WHERE id IN (SELECT link_id FROM link_text_queue);
DELETE FROM link_search WHERE rowid IN (
    SELECT n.number FROM link_text_queue AS q JOIN link_numbers AS n ON n.link_id = q.link_id
);
INSERT INTO link_search (rowid, search)
    SELECT n.number, l.search FROM link_numbers AS n JOIN links AS l ON l.id = n.link_id
    WHERE l.id IN (SELECT link_id FROM link_text_queue);
DROP TABLE link_text_queue;

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
