-- The schema of ../postgres, with its comments there: the same tables and columns in the same order. What differs has a
-- comment here. BOOLEAN is INTEGER, times are text in UTC, and there are no roles, rights and policies.

-- Instance
CREATE TABLE instance (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT;
INSERT INTO counters (name, next) VALUES ('click', 1);
CREATE TABLE leases (
    name TEXT PRIMARY KEY, lease_holder TEXT, lease_until TEXT, due_at TEXT NOT NULL, node TEXT,
    began_at TEXT, ended_at TEXT, error TEXT
) STRICT;
CREATE TABLE acme_files (name TEXT PRIMARY KEY, value BLOB NOT NULL, modified_at TEXT NOT NULL) STRICT;
CREATE TABLE changes (
    id INTEGER NOT NULL PRIMARY KEY,  -- the last row stays, so that no number is reused
    subject TEXT NOT NULL, changed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

-- Accounts
CREATE TABLE accounts (
    id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE, name TEXT NOT NULL, password_hash TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, email_verified_at TEXT, deleted_at TEXT, disabled_at TEXT
) STRICT;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES accounts (id), agent TEXT NOT NULL,
    created_at TEXT NOT NULL, used_at TEXT NOT NULL, expires_at TEXT NOT NULL, revoked_at TEXT,
    methods TEXT NOT NULL DEFAULT 'PASSWORD', authenticated_at TEXT, ends_at TEXT,
    methods_changed_at TEXT
) STRICT;
CREATE INDEX sessions_by_account ON sessions (account_id, id);
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX sessions_changed ON sessions (methods_changed_at) WHERE methods_changed_at IS NOT NULL;
CREATE TABLE refresh_tokens (
    hash BLOB PRIMARY KEY, session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, spent_at TEXT
) STRICT;
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id);
CREATE TABLE auth_flows (
    hash BLOB PRIMARY KEY, kind TEXT NOT NULL, account_id TEXT REFERENCES accounts (id),
    data TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX auth_flows_by_account ON auth_flows (account_id, kind);
CREATE INDEX auth_flows_by_age ON auth_flows (expires_at);
CREATE TABLE totp (
    account_id TEXT PRIMARY KEY REFERENCES accounts (id), secret BLOB NOT NULL,
    created_at TEXT NOT NULL, enrolled_at TEXT, used_steps TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE recovery_codes (hash BLOB PRIMARY KEY, account_id TEXT NOT NULL REFERENCES accounts (id)) STRICT;
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
CREATE TABLE sso_identities (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, account_id TEXT NOT NULL REFERENCES accounts (id),
    created_at TEXT NOT NULL, used_at TEXT NOT NULL, PRIMARY KEY (issuer, subject)
) STRICT;
CREATE INDEX sso_identities_by_account ON sso_identities (account_id);

-- Workspaces
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL, hit_quota INTEGER CHECK (hit_quota >= 0),
    link_quota INTEGER CHECK (link_quota >= 0), created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    default_strategy TEXT NOT NULL DEFAULT 'DETERMINISTIC'
        CHECK (default_strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM')),
    default_redirect_status INTEGER NOT NULL DEFAULT 302 CHECK (default_redirect_status IN (301, 302, 307, 308)),
    primary_host TEXT, deleted_at TEXT, purged_at TEXT, routing_defaults TEXT, not_found_url TEXT, ended_url TEXT,
    qr_style TEXT, qr_logo BLOB, inspectable INTEGER NOT NULL DEFAULT FALSE,
    case_sensitive_codes INTEGER NOT NULL DEFAULT true, require_second_factor INTEGER NOT NULL DEFAULT FALSE
) STRICT;
CREATE INDEX workspaces_to_purge ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
INSERT INTO workspaces (id, slug, name, created_at, updated_at)
VALUES ('ws_00000000000000000000000000', 'public', 'Public', '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00');
CREATE TABLE slugs (
    slug TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), created_at TEXT NOT NULL
) STRICT;
CREATE INDEX slugs_by_workspace ON slugs (workspace_id);
INSERT INTO slugs (slug, workspace_id, created_at) SELECT slug, id, created_at FROM workspaces;
CREATE TABLE members (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id), account_id TEXT NOT NULL REFERENCES accounts (id),
    role TEXT NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')), created_at TEXT NOT NULL,
    source TEXT NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'sso'))
        CHECK (source = 'manual' OR role <> 'OWNER'),
    PRIMARY KEY (workspace_id, account_id)
) STRICT;
CREATE INDEX members_by_account ON members (account_id, workspace_id);
CREATE TABLE sso_workspaces (slug TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id)) STRICT;
CREATE TABLE invitations (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), email TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')), token_hash BLOB NOT NULL UNIQUE,
    invited_by TEXT NOT NULL REFERENCES accounts (id), created_at TEXT NOT NULL, expires_at TEXT NOT NULL,
    accepted_at TEXT, accepted_by TEXT REFERENCES accounts (id)
) STRICT;
CREATE UNIQUE INDEX invitations_pending ON invitations (workspace_id, email) WHERE accepted_at IS NULL;
CREATE INDEX invitations_in_workspace ON invitations (workspace_id, id);
CREATE INDEX invitations_by_email ON invitations (email);
CREATE INDEX invitations_by_age ON invitations (expires_at);
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), name TEXT NOT NULL,
    prefix TEXT NOT NULL, hash BLOB NOT NULL UNIQUE, scopes TEXT NOT NULL,
    created_by TEXT NOT NULL REFERENCES accounts (id), created_at TEXT NOT NULL, expires_at TEXT, last_used_at TEXT,
    revoked_at TEXT, old_hash BLOB, old_hash_ends_at TEXT, destination_hosts TEXT NOT NULL DEFAULT '[]',
    origins TEXT NOT NULL DEFAULT '[]', networks TEXT NOT NULL DEFAULT '[]', requests_per_minute INTEGER, folders TEXT,
    links_per_day INTEGER
) STRICT;
CREATE INDEX api_keys_in_workspace ON api_keys (workspace_id, id);
CREATE UNIQUE INDEX api_keys_by_old_hash ON api_keys (old_hash) WHERE old_hash IS NOT NULL;
CREATE TABLE domains (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), host TEXT NOT NULL,
    token TEXT NOT NULL, created_at TEXT NOT NULL, verified_at TEXT, checked_at TEXT, failed_at TEXT, root_url TEXT,
    not_found_url TEXT, ended_url TEXT, favicon_url TEXT, indexable INTEGER NOT NULL DEFAULT FALSE,
    apple_app_site_association TEXT, asset_links TEXT, code_space TEXT NOT NULL DEFAULT 'SHARED',
    case_sensitive INTEGER NOT NULL DEFAULT true, UNIQUE (workspace_id, host)
) STRICT;
CREATE UNIQUE INDEX domains_verified ON domains (host) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_in_workspace ON domains (workspace_id, id);
CREATE VIEW verified_hosts AS SELECT host FROM domains WHERE verified_at IS NOT NULL;
CREATE TABLE host_owners (
    host TEXT NOT NULL, workspace_id TEXT NOT NULL, starts_at TEXT NOT NULL, ends_at TEXT, domain_id TEXT,
    case_sensitive INTEGER NOT NULL DEFAULT true, PRIMARY KEY (host, starts_at)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX host_owners_now ON host_owners (host) WHERE ends_at IS NULL;
CREATE TABLE folders (
    id TEXT NOT NULL PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name TEXT NOT NULL, name_key TEXT NOT NULL, created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX folders_by_name ON folders (workspace_id, name_key);
CREATE TABLE utm_templates (
    id TEXT NOT NULL PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name TEXT NOT NULL, name_key TEXT NOT NULL, utm TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX utm_templates_by_name ON utm_templates (workspace_id, name_key);
CREATE TABLE idempotency_keys (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id), actor_id TEXT NOT NULL, name TEXT NOT NULL,
    input_hash BLOB NOT NULL, answer TEXT NOT NULL, created_at TEXT NOT NULL,
    PRIMARY KEY (workspace_id, actor_id, name)
) STRICT;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Links
CREATE TABLE links (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), code TEXT NOT NULL,
    root_code TEXT UNIQUE,
    strategy TEXT NOT NULL CHECK (strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM', 'CUSTOM')),
    original_url TEXT NOT NULL, canonical_url TEXT NOT NULL, canonical_hash BLOB NOT NULL, title TEXT,
    redirect_status INTEGER NOT NULL CHECK (redirect_status IN (301, 302, 307, 308)), starts_at TEXT, expires_at TEXT,
    created_by TEXT REFERENCES accounts (id), created_at TEXT NOT NULL, updated_at TEXT NOT NULL, deleted_at TEXT,
    disabled_at TEXT, note TEXT, max_clicks INTEGER CHECK (max_clicks > 0), ended_at TEXT, purged_at TEXT,
    claim_hash BLOB, title_key TEXT NOT NULL DEFAULT '', search TEXT NOT NULL DEFAULT '',
    destination_status INTEGER, last_checked_at TEXT, check_at TEXT, check_failures INTEGER NOT NULL DEFAULT 0,
    stats_public INTEGER NOT NULL DEFAULT FALSE, routing TEXT, version INTEGER NOT NULL DEFAULT 1,
    version_cause TEXT NOT NULL DEFAULT 'CREATED', version_actor TEXT NOT NULL DEFAULT '', version_operation TEXT,
    started_at TEXT, expired_at TEXT, reported_state TEXT, external_id TEXT, metadata TEXT NOT NULL DEFAULT '',
    host_key TEXT NOT NULL DEFAULT '', version_starts_at TEXT, next_change_at TEXT, password_hash TEXT, code_key TEXT,
    folder_id TEXT REFERENCES folders (id), own_address TEXT,
    domain_id TEXT REFERENCES domains (id) ON DELETE SET NULL
        CONSTRAINT own_code_has_domain CHECK (own_address IS NULL OR domain_id IS NOT NULL OR deleted_at IS NOT NULL),
    archived INTEGER NOT NULL DEFAULT FALSE
) STRICT;
CREATE UNIQUE INDEX links_by_code ON links (workspace_id, code);
CREATE UNIQUE INDEX links_by_code_key ON links (workspace_id, code_key) WHERE code_key IS NOT NULL;
CREATE UNIQUE INDEX links_by_canonical ON links (workspace_id, canonical_hash) WHERE strategy = 'DETERMINISTIC';
CREATE UNIQUE INDEX links_by_external_id ON links (workspace_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX links_by_claim ON links (claim_hash) WHERE claim_hash IS NOT NULL;
CREATE INDEX links_of_workspace ON links (workspace_id, id, created_at, archived, deleted_at, disabled_at, purged_at,
    created_by, host_key) WHERE purged_at IS NULL;
CREATE INDEX links_by_title ON links (workspace_id, title_key, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_update ON links (workspace_id, updated_at, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_expiration ON links (workspace_id, expires_at, id)
    WHERE expires_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_with_routing ON links (workspace_id, id) WHERE routing IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_by_folder ON links (folder_id, id) WHERE folder_id IS NOT NULL;
CREATE INDEX links_by_domain ON links (domain_id) WHERE domain_id IS NOT NULL;
CREATE INDEX links_to_purge ON links (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_to_check ON links (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX links_to_change ON links (next_change_at) WHERE next_change_at IS NOT NULL;
CREATE INDEX links_to_start ON links (starts_at)
    WHERE starts_at IS NOT NULL AND started_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_expire ON links (expires_at)
    WHERE expires_at IS NOT NULL AND expired_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE TABLE link_versions (
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE, number INTEGER NOT NULL,
    workspace_id TEXT NOT NULL, starts_at TEXT NOT NULL, ends_at TEXT NOT NULL, cause TEXT NOT NULL,
    actor_id TEXT NOT NULL, snapshot TEXT NOT NULL, operation_id TEXT, PRIMARY KEY (link_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE link_tags (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id), tag TEXT NOT NULL,
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE, PRIMARY KEY (workspace_id, tag, link_id)
) STRICT;
CREATE INDEX link_tags_by_link ON link_tags (link_id, tag);
CREATE TABLE link_metadata (
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE, key TEXT NOT NULL, workspace_id TEXT NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (link_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_metadata_by_pair ON link_metadata (workspace_id, key, value, link_id);
CREATE TABLE link_urls (
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE, field TEXT NOT NULL, workspace_id TEXT NOT NULL,
    host TEXT NOT NULL, url TEXT NOT NULL, destination_status INTEGER, last_checked_at TEXT, check_at TEXT,
    check_failures INTEGER NOT NULL DEFAULT 0, reported_state TEXT, PRIMARY KEY (link_id, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_urls_by_host ON link_urls (host, link_id);
CREATE INDEX link_urls_to_check ON link_urls (check_at) WHERE check_at IS NOT NULL;
CREATE TABLE grants (
    subject_id TEXT NOT NULL PRIMARY KEY, link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL, max_clicks INTEGER, granted INTEGER NOT NULL DEFAULT 0, exhausted_at TEXT,
    clicks_before INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_by_link ON grants (link_id);
CREATE INDEX grants_to_exhaust ON grants (subject_id)
    WHERE granted >= max_clicks AND exhausted_at IS NULL AND subject_id = link_id;
CREATE TABLE link_usage (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id), month TEXT NOT NULL, links INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, month)
) STRICT;
CREATE TABLE key_usage (
    key_id TEXT NOT NULL PRIMARY KEY, workspace_id TEXT NOT NULL,
    day TEXT NOT NULL, links INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE scheduled_changes (
    id TEXT NOT NULL PRIMARY KEY, link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL, due_at TEXT NOT NULL, patch TEXT NOT NULL, actor_id TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX scheduled_changes_of_link ON scheduled_changes (link_id, due_at, id);
CREATE TABLE blocked_hosts (host TEXT PRIMARY KEY, reason TEXT NOT NULL, created_at TEXT NOT NULL) STRICT;
-- Why the operator has disabled a link, which has disabled_at as long as there is a row.
CREATE TABLE disabled_links (
    link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    host TEXT NOT NULL,  -- empty: the link by itself
    created_at TEXT NOT NULL, PRIMARY KEY (link_id, host)
) STRICT;
CREATE TABLE reports (
    id TEXT PRIMARY KEY, link_id TEXT NOT NULL,
    reason TEXT NOT NULL CHECK (reason IN ('SPAM', 'PHISHING', 'MALWARE', 'ILLEGAL', 'OTHER')), details TEXT,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX reports_by_link ON reports (link_id, id);

-- Search of links
-- Substring search within a workspace. The index refers to links by an explicit number, because VACUUM may change
-- implicit rowids. Package linklist moves texts from the queue to link_search in the background: a transaction with
-- large texts does not block the other writers.
CREATE TABLE link_numbers (
    number INTEGER PRIMARY KEY, link_id TEXT NOT NULL UNIQUE REFERENCES links (id) ON DELETE CASCADE
) STRICT;
CREATE VIRTUAL TABLE link_search USING fts5 (search, content = '', contentless_delete = 1,
    tokenize = 'trigram case_sensitive 1');
CREATE TABLE link_text_queue (
    number INTEGER NOT NULL PRIMARY KEY, link_id TEXT NOT NULL, workspace_id TEXT NOT NULL
) STRICT;
CREATE INDEX link_text_queue_in_workspace ON link_text_queue (workspace_id, link_id);
CREATE TRIGGER link_text_created AFTER INSERT ON links
BEGIN INSERT INTO link_text_queue (link_id, workspace_id) VALUES (new.id, new.workspace_id); END;
CREATE TRIGGER link_text_changed AFTER UPDATE OF search, workspace_id ON links
    WHEN new.search <> old.search OR new.workspace_id <> old.workspace_id
BEGIN INSERT INTO link_text_queue (link_id, workspace_id) VALUES (new.id, new.workspace_id); END;
CREATE TRIGGER link_text_deleted BEFORE DELETE ON links BEGIN
    DELETE FROM link_search WHERE rowid = (SELECT number FROM link_numbers WHERE link_id = old.id);
    DELETE FROM link_text_queue WHERE workspace_id = old.workspace_id AND link_id = old.id;
END;

-- Clicks
CREATE TABLE clicks (
    id INTEGER NOT NULL, workspace_id TEXT NOT NULL, link_id TEXT NOT NULL, clicked_at TEXT NOT NULL,
    latency_ms REAL NOT NULL, visit INTEGER NOT NULL, bot INTEGER NOT NULL, status INTEGER NOT NULL, referrer TEXT,
    country TEXT, device TEXT, browser TEXT, os TEXT, language TEXT, utm_source TEXT, utm_medium TEXT,
    utm_campaign TEXT, utm_term TEXT, utm_content TEXT, rule_id TEXT, target_id TEXT, qr_source TEXT,
    PRIMARY KEY (workspace_id, clicked_at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at, id);
CREATE TABLE click_days (
    subject_id TEXT NOT NULL, starts_at TEXT NOT NULL, workspace_id TEXT NOT NULL, clicks INTEGER NOT NULL,
    visits INTEGER NOT NULL, bots INTEGER NOT NULL, latency_mean REAL NOT NULL, latency_m2 REAL NOT NULL,
    counts BLOB NOT NULL, PRIMARY KEY (subject_id, starts_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX click_days_of_workspace ON click_days (workspace_id, starts_at);
CREATE TABLE click_totals (
    subject_id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL, clicks INTEGER NOT NULL, latency_mean REAL NOT NULL,
    latency_m2 REAL NOT NULL, bots INTEGER NOT NULL DEFAULT 0,
    last_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',
    sealed_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',
    _sealed_clicks INTEGER NOT NULL DEFAULT 0, _month INTEGER NOT NULL DEFAULT 0,
    _before_month INTEGER NOT NULL DEFAULT 0, _before_last INTEGER NOT NULL DEFAULT 0,
    _outage INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX click_totals_by_clicks ON click_totals (workspace_id, clicks, subject_id);
CREATE INDEX click_totals_by_last_click ON click_totals (workspace_id, last_at, subject_id);
CREATE TABLE click_logs (
    id TEXT PRIMARY KEY, position INTEGER NOT NULL, _sending_id INTEGER NOT NULL DEFAULT 0,
    _sending_clicks INTEGER NOT NULL DEFAULT 0, _alive_at TEXT, _has_redis INTEGER NOT NULL DEFAULT FALSE
) STRICT;
CREATE INDEX click_logs_by_report ON click_logs (_alive_at);
CREATE TABLE click_moves (
    link_id TEXT PRIMARY KEY, to_workspace TEXT NOT NULL, requests INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE click_batches (
    id INTEGER NOT NULL PRIMARY KEY,  -- as in changes
    first_id INTEGER NOT NULL, last_id INTEGER NOT NULL, first_at TEXT NOT NULL,
    last_at TEXT NOT NULL, written_at TEXT NOT NULL
) STRICT;
CREATE INDEX click_batches_by_click ON click_batches (last_id);
CREATE TABLE visitors (
    day INTEGER NOT NULL, visitor INTEGER NOT NULL, PRIMARY KEY (day, visitor)
) STRICT, WITHOUT ROWID;
CREATE TABLE visitor_keys (day INTEGER NOT NULL PRIMARY KEY, key BLOB NOT NULL) STRICT;
CREATE TABLE unmatched (
    workspace_id TEXT NOT NULL, day INTEGER NOT NULL, code TEXT NOT NULL, status INTEGER NOT NULL,
    requests INTEGER NOT NULL, last_at TEXT NOT NULL, PRIMARY KEY (workspace_id, day, code, status)
) STRICT, WITHOUT ROWID;

-- Events and webhooks
CREATE TABLE audit_events (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), actor_id TEXT NOT NULL,
    action TEXT NOT NULL, target_id TEXT NOT NULL, details TEXT NOT NULL, created_at TEXT NOT NULL, version INTEGER,
    changes TEXT, xid INTEGER, seq INTEGER, operation_id TEXT, effective_at TEXT, url TEXT
) STRICT;
CREATE INDEX audit_events_in_workspace ON audit_events (workspace_id, id);
CREATE INDEX audit_events_by_target ON audit_events (target_id, id);
CREATE INDEX audit_events_by_actor ON audit_events (actor_id, id);
-- One writer at a time numbers events as it inserts them, which costs less than a trigger. xid is always 0.
CREATE TABLE event_numbers (last INTEGER NOT NULL) STRICT;
INSERT INTO event_numbers VALUES (0);
CREATE UNIQUE INDEX audit_events_seq ON audit_events (seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_events_in_order ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_events_rare ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL
    AND action NOT IN ('LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED', 'LINK_RESTORED', 'LINK_CLAIMED');
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id), name TEXT NOT NULL, url TEXT NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED', 'DISABLED')), blocked INTEGER NOT NULL DEFAULT FALSE,
    secret BLOB NOT NULL, old_secret BLOB, old_secret_ends_at TEXT, xid INTEGER NOT NULL, seq INTEGER NOT NULL,
    click_xid INTEGER NOT NULL DEFAULT 0, click_seq INTEGER NOT NULL DEFAULT 0,
    skipped_clicks INTEGER NOT NULL DEFAULT 0, due_at TEXT, failing_since TEXT, created_at TEXT NOT NULL,
    created_by TEXT NOT NULL, deleted_at TEXT, kept_by TEXT,
    notice TEXT CHECK (notice IN ('RECEIVER', 'API_KEY', 'MEMBER')), concurrency INTEGER NOT NULL DEFAULT 2,
    until_xid INTEGER NOT NULL DEFAULT 0, until_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX webhooks_in_workspace ON webhooks (workspace_id, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_by_host ON webhooks (host);
CREATE INDEX webhooks_to_announce ON webhooks (id) WHERE notice IS NOT NULL;
CREATE INDEX webhooks_deleted ON webhooks (id) WHERE deleted_at IS NOT NULL;
CREATE TABLE webhook_types (
    type TEXT NOT NULL, workspace_id TEXT NOT NULL,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE, PRIMARY KEY (type, workspace_id, webhook_id)
) STRICT;
CREATE INDEX webhook_types_of_webhook ON webhook_types (webhook_id);
CREATE TABLE webhook_tags (
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE, tag TEXT NOT NULL,
    workspace_id TEXT NOT NULL, PRIMARY KEY (webhook_id, tag)
) STRICT;
CREATE TABLE webhook_readers (
    log TEXT PRIMARY KEY CHECK (log IN ('CLICKS', 'EVENTS')), xid INTEGER NOT NULL, seq INTEGER NOT NULL,
    read_at TEXT NOT NULL, lease_until TEXT, lease_holder TEXT
) STRICT;
INSERT INTO webhook_readers SELECT column1, 0, 0, strftime('%Y-%m-%d %H:%M:%f+00:00', 'now'), NULL, NULL
    FROM (VALUES ('EVENTS'), ('CLICKS'));
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE, event_id TEXT NOT NULL,
    clicks INTEGER NOT NULL DEFAULT 0, subject_id TEXT NOT NULL, type TEXT NOT NULL, number INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('WAITING', 'DELIVERED', 'FAILED', 'SKIPPED')),
    tries INTEGER NOT NULL DEFAULT 0, due_at TEXT, claimed_until TEXT, first_tried_at TEXT, created_at TEXT NOT NULL,
    click_ids TEXT NOT NULL DEFAULT '', UNIQUE (webhook_id, event_id)
) STRICT;
CREATE INDEX webhook_deliveries_in_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE status = 'WAITING';
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (webhook_id, subject_id, number)
    WHERE status = 'WAITING' AND tries = 0;
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id, claimed_until)
    WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
CREATE TABLE webhook_attempts (
    delivery_id TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE, number INTEGER NOT NULL,
    workspace_id TEXT NOT NULL, sent_at TEXT NOT NULL, status INTEGER, error TEXT, duration_ms INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, number)
) STRICT;
CREATE TABLE webhook_stops (id TEXT PRIMARY KEY CHECK (id = 'all'), stopped_at TEXT NOT NULL) STRICT;

-- Tasks and imports
CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY, workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('WAITING_FOR_UPLOAD', 'QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    input TEXT NOT NULL, cursor TEXT NOT NULL DEFAULT '', done INTEGER NOT NULL DEFAULT 0, total INTEGER,
    lease_holder TEXT, lease_until TEXT, attempts INTEGER NOT NULL DEFAULT 0, due_at TEXT NOT NULL,
    cancel_requested_at TEXT, error_code TEXT, error TEXT, actor_id TEXT NOT NULL, operation_id TEXT NOT NULL,
    created_at TEXT NOT NULL, started_at TEXT, updated_at TEXT NOT NULL, finished_at TEXT, secret BLOB, upload TEXT,
    keeps_file INTEGER NOT NULL DEFAULT FALSE, outside INTEGER NOT NULL DEFAULT FALSE,
    file_bytes INTEGER NOT NULL DEFAULT 0, stored_rows INTEGER NOT NULL DEFAULT 0,
    CHECK ((status = 'RUNNING') = (lease_holder IS NOT NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_by_workspace ON tasks (workspace_id, id);
CREATE INDEX tasks_unfinished ON tasks (id) WHERE finished_at IS NULL;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_running ON tasks (workspace_id, kind) WHERE status = 'RUNNING';
CREATE INDEX tasks_stored ON tasks (workspace_id) WHERE (file_bytes > 0) OR stored_rows > 0;
CREATE TABLE task_chunks (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, upload TEXT NOT NULL,
    number INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (task_id, upload, number)
) STRICT;
CREATE INDEX task_chunks_by_workspace ON task_chunks (workspace_id);
CREATE TABLE import_rows (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, number INTEGER NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, line INTEGER NOT NULL,
    source_id TEXT NOT NULL, source_url TEXT NOT NULL, host TEXT NOT NULL, hash BLOB NOT NULL, outcome TEXT NOT NULL,
    code TEXT, canonical_hash BLOB, link_id TEXT, losses TEXT, errors TEXT,
    PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_rows_by_source ON import_rows (source_id, task_id);
CREATE INDEX import_rows_by_link ON import_rows (link_id, task_id) WHERE link_id IS NOT NULL;
CREATE INDEX import_rows_by_workspace ON import_rows (workspace_id);
CREATE TABLE import_claims (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, claim TEXT NOT NULL, number INTEGER NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, PRIMARY KEY (task_id, claim)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_claims_by_workspace ON import_claims (workspace_id);
CREATE TABLE link_origins (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, source TEXT NOT NULL,
    label TEXT NOT NULL, source_id TEXT NOT NULL, link_id TEXT NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    source_url TEXT, hash BLOB NOT NULL, source_created_at TEXT, clicks INTEGER, last_clicked_at TEXT,
    imported_at TEXT NOT NULL, operation_id TEXT, previous_hash BLOB,
    root_proof TEXT NOT NULL DEFAULT '',  -- the signature of a code at the root, in an archive
    PRIMARY KEY (workspace_id, source, label, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_origins_by_link ON link_origins (link_id, imported_at);
CREATE TABLE parity_rows (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, number INTEGER NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, link_id TEXT NOT NULL,
    source_url TEXT NOT NULL, verdict TEXT NOT NULL, source_status INTEGER, source_location TEXT,
    status INTEGER NOT NULL, location TEXT, checked_at TEXT NOT NULL, PRIMARY KEY (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX parity_rows_by_workspace ON parity_rows (workspace_id);

-- Triggers that write changes, for the caches of the node
CREATE TRIGGER link_changed AFTER UPDATE OF workspace_id, code, root_code, original_url, redirect_status, starts_at,
        expires_at, max_clicks, routing, deleted_at, disabled_at, purged_at ON links
    WHEN (OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at,
            OLD.expires_at, OLD.max_clicks, OLD.routing, OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS NOT
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at,
            NEW.expires_at, NEW.max_clicks, NEW.routing, NEW.deleted_at, NEW.disabled_at, NEW.purged_at)
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    INSERT INTO changes (subject) SELECT NEW.workspace_id || '/' || NEW.code
        WHERE (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code);
END;
CREATE TRIGGER link_removed AFTER DELETE ON links
BEGIN INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code); END;
CREATE TRIGGER code_key_released AFTER DELETE ON links WHEN OLD.code_key IS NOT NULL
BEGIN INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/^' || OLD.code_key); END;
CREATE TRIGGER change_scheduled AFTER INSERT ON scheduled_changes BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = NEW.link_id)
        WHERE id = NEW.link_id;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = NEW.link_id;
END;
CREATE TRIGGER scheduled_change_removed AFTER DELETE ON scheduled_changes BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = OLD.link_id)
        WHERE id = OLD.link_id;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = OLD.link_id;
END;
CREATE TRIGGER workspace_changed
    AFTER UPDATE OF hit_quota, deleted_at, purged_at, not_found_url, ended_url, case_sensitive_codes ON workspaces
    WHEN (OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url, OLD.case_sensitive_codes)
        IS NOT
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url, NEW.case_sensitive_codes)
BEGIN INSERT INTO changes (subject) VALUES (NEW.id); END;
CREATE TRIGGER slug_taken AFTER INSERT ON slugs BEGIN INSERT INTO changes (subject) VALUES ('~' || NEW.slug); END;
CREATE TRIGGER domain_changed AFTER UPDATE OF verified_at, root_url, not_found_url, ended_url, favicon_url, indexable,
        apple_app_site_association, asset_links ON domains
    WHEN (OLD.verified_at, OLD.root_url, OLD.not_found_url, OLD.ended_url, OLD.favicon_url, OLD.indexable,
            OLD.apple_app_site_association, OLD.asset_links)
        IS NOT
        (NEW.verified_at, NEW.root_url, NEW.not_found_url, NEW.ended_url, NEW.favicon_url, NEW.indexable,
            NEW.apple_app_site_association, NEW.asset_links)
BEGIN INSERT INTO changes (subject) VALUES ('@' || NEW.host); END;
CREATE TRIGGER domain_removed AFTER DELETE ON domains WHEN OLD.verified_at IS NOT NULL
BEGIN INSERT INTO changes (subject) VALUES ('@' || OLD.host); END;
CREATE TRIGGER session_revoked AFTER UPDATE OF revoked_at ON sessions
    WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL
BEGIN INSERT INTO changes (subject) VALUES (NEW.id); END;
CREATE TRIGGER session_methods_changed AFTER UPDATE OF methods ON sessions WHEN OLD.methods <> NEW.methods
BEGIN INSERT INTO changes (subject) VALUES (NEW.id || ' ' || NEW.methods); END;
