-- Brings a database that has the migrations in ../adopted.txt to the base, in one transaction. A change of the base is
-- added here too, until the first release.

ALTER TABLE orphans RENAME TO unmatched;
ALTER TABLE unmatched RENAME CONSTRAINT orphans_pkey TO unmatched_pkey;

ALTER TABLE api_keys ADD COLUMN links_per_day BIGINT;
CREATE TABLE key_usage (
    key_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL, day TEXT COLLATE "C" NOT NULL, links BIGINT NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON key_usage TO linkforge_tenant, linkforge_system;
ALTER TABLE key_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE key_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON key_usage TO linkforge_system USING (true);
CREATE POLICY of_workspace ON key_usage TO linkforge_tenant
    USING (workspace_id = current_setting('linkforge.workspace', true));

DROP TRIGGER link_inserted_without_host_key ON links;
DROP TRIGGER link_updated_without_host_key ON links;
DROP FUNCTION set_host_key;
DROP FUNCTION host_key_of;

ALTER TABLE link_origins ADD COLUMN operation_id TEXT COLLATE "C", ADD COLUMN previous_hash BYTEA;
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
-- It is not known why, so that enabling a host does not enable them: linkforge links enable does.
INSERT INTO disabled_links SELECT id, '', disabled_at FROM links WHERE disabled_at IS NOT NULL;
RESET ROLE;

DROP TABLE link_text_backfill;

-- What tasks store, for the bounds of workspaces and accounts.
ALTER TABLE tasks ADD COLUMN outside BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN file_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN stored_rows BIGINT NOT NULL DEFAULT 0;
SET LOCAL ROLE linkforge_system;
UPDATE tasks SET outside = finished_at IS NULL
        AND (kind = 'PARITY_CHECK' OR kind = 'IMPORT' AND secret IS NOT NULL AND total IS NULL),
    file_bytes = COALESCE((SELECT sum(length(bytes)) FROM task_chunks WHERE task_id = tasks.id), 0),
    stored_rows = CASE kind WHEN 'WORKSPACE_EXPORT' THEN 0 ELSE done END;
RESET ROLE;

CREATE INDEX tasks_stored ON tasks (workspace_id) WHERE file_bytes > 0 OR stored_rows > 0;
ALTER TABLE click_totals ADD COLUMN _outage BIGINT NOT NULL DEFAULT 0;
ALTER TABLE click_logs ADD COLUMN _alive_at TIMESTAMPTZ;
ALTER TABLE click_logs ADD COLUMN _has_redis BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX click_logs_by_report ON click_logs (_alive_at);

-- When a link was archived is not shown.
ALTER TABLE links ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE;
SET LOCAL ROLE linkforge_system;
UPDATE links SET archived = TRUE WHERE archived_at IS NOT NULL;
RESET ROLE;

DROP INDEX links_of_workspace;
ALTER TABLE links DROP COLUMN archived_at;
CREATE INDEX links_of_workspace ON links (workspace_id, id, created_at, archived, deleted_at, disabled_at, purged_at,
    created_by, host_key) WHERE purged_at IS NULL;

-- All webhooks get the same data.
ALTER TABLE webhooks DROP COLUMN selection;
ALTER TABLE webhooks DROP COLUMN selection_error;
ALTER TABLE webhooks DROP COLUMN needs_stats;

-- Clicks are not stored by column any more.
DROP TABLE click_details;
ALTER TABLE click_totals DROP COLUMN detailed_at;
DROP FUNCTION forget_months;
CREATE OR REPLACE FUNCTION keep_month(month TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    first TIMESTAMP := date_trunc('month', month AT TIME ZONE 'UTC');
    part  TEXT := 'clicks' || to_char(first, '_YYYY_MM');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    IF to_regclass(part) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE clicks INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO linkforge_system', part);
        EXECUTE format('ALTER TABLE clicks ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part,
            first AT TIME ZONE 'UTC', (first + INTERVAL '1 month') AT TIME ZONE 'UTC');
    END IF;
END $$;
CREATE FUNCTION forget_months(until TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    part TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'clicks'::regclass ORDER BY c.relname LOOP
        CONTINUE WHEN (to_date(right(part, 7), 'YYYY_MM') + INTERVAL '1 month')::TIMESTAMP AT TIME ZONE 'UTC' > until;
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION forget_months FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_months TO linkforge_system;

-- All leases have the same columns, and end with the nodes of the earlier version.
ALTER TABLE leases RENAME COLUMN holder TO lease_holder;
ALTER TABLE leases RENAME COLUMN free_at TO lease_until;
ALTER TABLE leases ALTER COLUMN lease_holder TYPE TEXT COLLATE "C", ALTER COLUMN lease_holder DROP NOT NULL,
    ALTER COLUMN lease_until DROP NOT NULL, DROP COLUMN dead_at;
ALTER TABLE webhook_readers RENAME COLUMN claimed_until TO lease_until;
ALTER TABLE webhook_readers ADD COLUMN lease_holder TEXT COLLATE "C";
SET LOCAL ROLE linkforge_system;
UPDATE leases SET lease_holder = NULL, lease_until = NULL;
UPDATE webhook_readers SET lease_until = NULL;
RESET ROLE;


-- A row has all its errors.
ALTER TABLE import_rows ALTER COLUMN error TYPE TEXT COLLATE "C" USING CASE WHEN error_code IS NOT NULL THEN
    json_build_array(json_build_object('code', error_code, 'message', error, 'field',
        CASE WHEN error_field IS NULL THEN json_build_array() ELSE json_build_array(error_field) END))::TEXT END;
ALTER TABLE import_rows RENAME COLUMN error TO errors;
ALTER TABLE import_rows DROP COLUMN error_code, DROP COLUMN error_field;

-- Rules and targets have the names of their ids that clicks have.
SET LOCAL ROLE linkforge_system;
UPDATE links SET routing = replace(replace(routing::TEXT, '"id": "rul_', '"ruleId": "rul_'),
    '"id": "tgt_', '"targetId": "tgt_')::JSONB WHERE routing IS NOT NULL;
UPDATE link_versions
    SET snapshot = replace(replace(snapshot, '"id":"rul_', '"ruleId":"rul_'), '"id":"tgt_', '"targetId":"tgt_');
UPDATE scheduled_changes
    SET patch = replace(replace(patch, '"id":"rul_', '"ruleId":"rul_'), '"id":"tgt_', '"targetId":"tgt_');
RESET ROLE;

-- Creations look up the domains of their workspaces.
GRANT SELECT (workspace_id, host) ON domains TO linkforge_creator;
CREATE POLICY of_workspaces ON domains TO linkforge_creator USING (array_position((SELECT
    string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);

-- TLS certificates.
CREATE TABLE acme_files (
    name TEXT COLLATE "C" PRIMARY KEY, value BYTEA NOT NULL, modified_at TIMESTAMPTZ NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON acme_files TO linkforge_system;
