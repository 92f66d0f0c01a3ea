-- Brings a database that has the migrations in ../adopted.txt to the base, in one transaction. A change of the base is
-- added here too, until the first release.

ALTER TABLE orphans RENAME TO unmatched;
ALTER TABLE unmatched RENAME CONSTRAINT orphans_pkey TO unmatched_pkey;

DROP TRIGGER link_inserted_without_host_key ON links;
DROP TRIGGER link_updated_without_host_key ON links;
DROP FUNCTION set_host_key;
DROP FUNCTION host_key_of;

SET LOCAL ROLE linkforge_system;  -- the owner is subject to row-level security
DO $$ BEGIN
    IF EXISTS (SELECT FROM (SELECT secret FROM webhooks UNION ALL SELECT old_secret FROM webhooks
            UNION ALL SELECT secret FROM tasks UNION ALL SELECT secret FROM totp) AS all_secrets
        WHERE substr(secret, 1, 8) <> 'sealed1:') THEN
        RAISE EXCEPTION 'a secret does not name its key: run linkforge secrets rewrap of version 35412b6f first';
    END IF;
END $$;
-- Each code of an authenticator app is valid once.
RESET ROLE;
ALTER TABLE totp ADD COLUMN used_steps TEXT NOT NULL DEFAULT '';
SET LOCAL ROLE linkforge_system;
UPDATE totp SET used_steps = last_step::TEXT;
RESET ROLE;
ALTER TABLE totp DROP COLUMN last_step;
SET LOCAL ROLE linkforge_system;
-- Links whose texts were never indexed.
INSERT INTO link_text_queue (link_id, workspace_id)
    SELECT id, workspace_id FROM links JOIN link_text_backfill ON id > after_id ORDER BY id;
RESET ROLE;
DROP TABLE link_text_backfill;
