-- Brings a database that has the migrations in ../adopted.txt to the base, in one transaction. A change of the base is
-- added here too, until the first release.

ALTER TABLE orphans RENAME TO unmatched;
ALTER TABLE unmatched RENAME CONSTRAINT orphans_pkey TO unmatched_pkey;

DROP TRIGGER link_inserted_without_host_key ON links;
DROP TRIGGER link_updated_without_host_key ON links;
DROP FUNCTION set_host_key;
DROP FUNCTION host_key_of;

ALTER TABLE link_origins ADD COLUMN root_proof TEXT COLLATE "C" NOT NULL DEFAULT '';
-- A session whose factors are removed.
ALTER TABLE sessions ADD COLUMN methods_changed_at TIMESTAMPTZ;
CREATE INDEX sessions_changed ON sessions (methods_changed_at) WHERE methods_changed_at IS NOT NULL;
CREATE FUNCTION session_methods_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO changes (subject) VALUES (NEW.id || ' ' || NEW.methods); RETURN NULL; END $$;
CREATE TRIGGER session_methods_changed AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (OLD.methods <> NEW.methods) EXECUTE FUNCTION session_methods_changed();

CREATE TABLE disabled_links (
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    host TEXT COLLATE "C" NOT NULL,  -- empty: the link by itself
    created_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (link_id, host)
);
GRANT SELECT, INSERT, DELETE ON disabled_links TO linkforge_system;

SET LOCAL ROLE linkforge_system;  -- the owner is subject to row-level security
DO $$ BEGIN
    IF EXISTS (SELECT FROM (SELECT secret FROM webhooks UNION ALL SELECT old_secret FROM webhooks
            UNION ALL SELECT secret FROM tasks UNION ALL SELECT secret FROM totp) AS all_secrets
        WHERE substr(secret, 1, 8) <> 'sealed1:') THEN
        RAISE EXCEPTION 'a secret does not name its key: run linkforge secrets rewrap of version 35412b6f first';
    END IF;
END $$;
-- Links whose texts were never indexed.
INSERT INTO link_text_queue (link_id, workspace_id)
    SELECT id, workspace_id FROM links JOIN link_text_backfill ON id > after_id ORDER BY id;
-- It is not known why, so that enabling a host does not enable them: linkforge links enable does.
INSERT INTO disabled_links SELECT id, '', disabled_at FROM links WHERE disabled_at IS NOT NULL;
RESET ROLE;
DROP TABLE link_text_backfill;
