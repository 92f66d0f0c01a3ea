-- Brings a database that has the migrations in ../adopted.txt to the base, in one transaction. A change of the base is
-- added here too, until the first release.

ALTER TABLE orphans RENAME TO unmatched;

ALTER TABLE api_keys ADD COLUMN links_per_day INTEGER;
CREATE TABLE key_usage (
    key_id TEXT NOT NULL PRIMARY KEY, workspace_id TEXT NOT NULL,
    day TEXT NOT NULL, links INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE link_origins ADD COLUMN operation_id TEXT;
ALTER TABLE link_origins ADD COLUMN previous_hash BLOB;
ALTER TABLE link_origins ADD COLUMN root_proof TEXT NOT NULL DEFAULT '';
-- A session whose factors are removed.
ALTER TABLE sessions ADD COLUMN methods_changed_at TEXT;
CREATE INDEX sessions_changed ON sessions (methods_changed_at) WHERE methods_changed_at IS NOT NULL;
CREATE TRIGGER session_methods_changed AFTER UPDATE OF methods ON sessions WHEN OLD.methods <> NEW.methods
BEGIN INSERT INTO changes (subject) VALUES (NEW.id || ' ' || NEW.methods); END;

CREATE TABLE disabled_links (
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    host TEXT NOT NULL,  -- empty: the link by itself
    created_at TEXT NOT NULL, PRIMARY KEY (link_id, host)
) STRICT;
-- It is not known why, so that enabling a host does not enable them: linkforge links enable does.
INSERT INTO disabled_links SELECT id, '', disabled_at FROM links WHERE disabled_at IS NOT NULL;

-- Secrets that do not name their key cannot be opened any more.
CREATE TABLE unmarked (
    secrets INTEGER CONSTRAINT run_linkforge_secrets_rewrap_of_35412b6f_first CHECK (secrets = 0)
) STRICT;
INSERT INTO unmarked SELECT count(*) FROM (SELECT secret FROM webhooks UNION ALL SELECT old_secret FROM webhooks
    UNION ALL SELECT secret FROM tasks UNION ALL SELECT secret FROM totp)
    WHERE substr(secret, 1, 8) <> CAST('sealed1:' AS BLOB);
DROP TABLE unmarked;

-- What tasks store, for the bounds of workspaces and accounts.
ALTER TABLE tasks ADD COLUMN outside INTEGER NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN file_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN stored_rows INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET outside = finished_at IS NULL
        AND (kind = 'PARITY_CHECK' OR kind = 'IMPORT' AND secret IS NOT NULL AND total IS NULL),
    file_bytes = COALESCE((SELECT sum(length(bytes)) FROM task_chunks WHERE task_id = tasks.id), 0),
    stored_rows = CASE kind WHEN 'WORKSPACE_EXPORT' THEN 0 ELSE done END;
CREATE INDEX tasks_stored ON tasks (workspace_id) WHERE (file_bytes > 0) OR stored_rows > 0;
ALTER TABLE click_totals ADD COLUMN _outage INTEGER NOT NULL DEFAULT 0;
ALTER TABLE click_logs ADD COLUMN _alive_at TEXT;
ALTER TABLE click_logs ADD COLUMN _has_redis INTEGER NOT NULL DEFAULT FALSE;
CREATE INDEX click_logs_by_report ON click_logs (_alive_at);

-- Each code of an authenticator app is valid once.
ALTER TABLE totp ADD COLUMN used_steps TEXT NOT NULL DEFAULT '';
UPDATE totp SET used_steps = CAST(last_step AS TEXT);
ALTER TABLE totp DROP COLUMN last_step;

-- When a link was archived is not shown.
ALTER TABLE links ADD COLUMN archived INTEGER NOT NULL DEFAULT FALSE;
UPDATE links SET archived = TRUE WHERE archived_at IS NOT NULL;
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

-- All leases have the same columns, and end with the nodes of the earlier version.
CREATE TABLE new_leases (
    name TEXT PRIMARY KEY, lease_holder TEXT, lease_until TEXT, due_at TEXT NOT NULL, node TEXT,
    began_at TEXT, ended_at TEXT, error TEXT
) STRICT;
INSERT INTO new_leases SELECT name, NULL, NULL, due_at, node, began_at, ended_at, error FROM leases;
DROP TABLE leases;
ALTER TABLE new_leases RENAME TO leases;
ALTER TABLE webhook_readers RENAME COLUMN claimed_until TO lease_until;
ALTER TABLE webhook_readers ADD COLUMN lease_holder TEXT;
UPDATE webhook_readers SET lease_until = NULL;

-- A row has all its errors.
ALTER TABLE import_rows ADD COLUMN errors TEXT;
UPDATE import_rows SET errors = json_array(json_object('code', error_code, 'message', error,
    'field', CASE WHEN error_field IS NULL THEN json_array() ELSE json_array(error_field) END))
    WHERE error_code IS NOT NULL;
ALTER TABLE import_rows DROP COLUMN error_code;
ALTER TABLE import_rows DROP COLUMN error;
ALTER TABLE import_rows DROP COLUMN error_field;

-- Rules and targets have the names of their ids that clicks have.
UPDATE links SET routing = replace(replace(routing, '"id":"rul_', '"ruleId":"rul_'), '"id":"tgt_', '"targetId":"tgt_')
    WHERE routing IS NOT NULL;
UPDATE link_versions
    SET snapshot = replace(replace(snapshot, '"id":"rul_', '"ruleId":"rul_'), '"id":"tgt_', '"targetId":"tgt_');
UPDATE scheduled_changes
    SET patch = replace(replace(patch, '"id":"rul_', '"ruleId":"rul_'), '"id":"tgt_', '"targetId":"tgt_');

-- TLS certificates.
CREATE TABLE acme_files (name TEXT PRIMARY KEY, value BLOB NOT NULL, modified_at TEXT NOT NULL) STRICT;
