-- The trigrams of links are indexed in the background, in a table of their own: neither creations nor
-- the clean-up of their rolled-back rows touch the index. Package linklist moves texts from the queue
-- to link_texts, and searches both.
CREATE TABLE link_texts (
    link_id      TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL,
    search       TEXT COLLATE "C" NOT NULL  -- as in links
);
CREATE INDEX link_texts_by_search ON link_texts USING gin (workspace_id, search gin_trgm_ops) WITH (gin_pending_list_limit = 1024);

-- The links whose texts have changed. The order of the numbers is not that of the commits.
CREATE TABLE link_text_queue (
    number       BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    link_id      TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL
);
CREATE INDEX link_text_queue_in_workspace ON link_text_queue (workspace_id, link_id);

-- While it has a row, links up to this ID have been indexed, and others of before this migration not.
CREATE TABLE link_text_backfill (
    after_id TEXT COLLATE "C" NOT NULL PRIMARY KEY
);
INSERT INTO link_text_backfill VALUES ('');

CREATE FUNCTION queue_link_text() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO link_text_queue (link_id, workspace_id) VALUES (NEW.id, NEW.workspace_id);
    RETURN NULL;
END $$;
CREATE TRIGGER link_text_created AFTER INSERT ON links FOR EACH ROW EXECUTE FUNCTION queue_link_text();
CREATE TRIGGER link_text_changed AFTER UPDATE OF search, workspace_id ON links FOR EACH ROW
    WHEN (NEW.search <> OLD.search OR NEW.workspace_id <> OLD.workspace_id) EXECUTE FUNCTION queue_link_text();

CREATE FUNCTION unqueue_link_text() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM link_text_queue WHERE workspace_id = OLD.workspace_id AND link_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER link_text_deleted AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION unqueue_link_text();

DROP INDEX links_by_search;

GRANT SELECT, INSERT, DELETE ON link_text_queue TO linkforge_tenant;
GRANT SELECT ON link_texts, link_text_queue, link_text_backfill TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON link_texts, link_text_queue, link_text_backfill TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['link_texts', 'link_text_queue'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))', name);
        EXECUTE format('CREATE POLICY resolved ON %I TO linkforge_resolver USING (true)', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
GRANT SELECT ON link_texts TO linkforge_tenant;
