-- The schema. Until the first release a change edits this file (CONTRIBUTING.md, "Database"); afterwards files are only
-- added. A comment behind columns is about the last of them. ../sqlite has the same tables and columns, without
-- comments. Text that is compared or sorted is compared byte by byte (COLLATE "C"), as in SQLite. Times are UTC.

-- Instance

-- Values of this instance, by name.
CREATE TABLE instance (name TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL);

-- Numbers are issued in blocks: next is the first that no node has.
CREATE TABLE counters (name TEXT COLLATE "C" PRIMARY KEY, next BIGINT NOT NULL);
INSERT INTO counters (name, next) VALUES ('click', 1);

-- The lease of each job, the time of the next run, and the last run. A lease gives a row to one node at a time: the
-- holder has it until another node takes it, which none does before lease_until. Both are null while the row is free.
CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY, lease_holder TEXT COLLATE "C", lease_until TIMESTAMPTZ,
    due_at TIMESTAMPTZ NOT NULL,  -- the next run, or another try if the node dies
    node TEXT, began_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,  -- null while the job is running, and if its node died
    error TEXT  -- null if the job succeeded
);

-- The account, keys, certificates and challenges of LINKFORGE_TLS=auto, by the path that CertMagic has for each.
CREATE TABLE acme_files (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL,  -- sealed
    modified_at TIMESTAMPTZ NOT NULL
);

-- Entries that every node removes from its caches: a link ('workspace/code'), its key ('workspace/^key'), a workspace,
-- a slug ('~slug'), a host ('@host'), a revoked session, or a session and its methods ('session methods'). Triggers
-- write them in the transaction of the change; old rows are deleted. Ids are not committed in their order, so
-- transactions are read by xid: see internal/feed.
CREATE TABLE changes (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, subject TEXT COLLATE "C" NOT NULL,
    xid BIGINT NOT NULL DEFAULT pg_current_xact_id()::TEXT::BIGINT,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX changes_by_xid ON changes (xid);

-- Accounts
CREATE TABLE accounts (
    id TEXT COLLATE "C" PRIMARY KEY, email TEXT COLLATE "C" NOT NULL UNIQUE,  -- in lower case
    name TEXT NOT NULL, password_hash TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL,
    email_verified_at TIMESTAMPTZ, deleted_at TIMESTAMPTZ,  -- all personal data is deleted then; the id remains
    disabled_at TIMESTAMPTZ  -- by the operator
);

-- A session continues by refresh tokens, each of which is valid once. It ends at ends_at even if it is refreshed.
CREATE TABLE sessions (
    id TEXT COLLATE "C" PRIMARY KEY, account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    agent TEXT NOT NULL,  -- the user agent that logged in
    created_at TIMESTAMPTZ NOT NULL, used_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ, methods TEXT COLLATE "C" NOT NULL DEFAULT 'PASSWORD',  -- AuthMethods, separated by spaces
    authenticated_at TIMESTAMPTZ, ends_at TIMESTAMPTZ,
    methods_changed_at TIMESTAMPTZ  -- tokens issued before may have others
);
CREATE INDEX sessions_by_account ON sessions (account_id, id);
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX sessions_changed ON sessions (methods_changed_at) WHERE methods_changed_at IS NOT NULL;
CREATE TABLE refresh_tokens (
    hash BYTEA PRIMARY KEY,  -- SHA-256
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, spent_at TIMESTAMPTZ
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id);

-- Unfinished flows: mailed tokens, challenges of logins, and logins at an identity provider. Each is consumed once.
CREATE TABLE auth_flows (
    hash BYTEA PRIMARY KEY,  -- SHA-256 of the token
    kind TEXT COLLATE "C" NOT NULL, account_id TEXT COLLATE "C" REFERENCES accounts (id),
    data TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX auth_flows_by_account ON auth_flows (account_id, kind);
CREATE INDEX auth_flows_by_age ON auth_flows (expires_at);

-- Authenticator apps. One without enrolled_at waits for its first code.
CREATE TABLE totp (
    account_id TEXT COLLATE "C" PRIMARY KEY REFERENCES accounts (id), secret BYTEA NOT NULL,  -- sealed
    created_at TIMESTAMPTZ NOT NULL, enrolled_at TIMESTAMPTZ,
    used_steps TEXT NOT NULL DEFAULT ''  -- the time steps of used codes, separated by spaces: each code is valid once
);
CREATE TABLE recovery_codes (
    hash BYTEA PRIMARY KEY,  -- SHA-256
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id)
);
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
CREATE TABLE sso_identities (
    issuer TEXT COLLATE "C" NOT NULL, subject TEXT COLLATE "C" NOT NULL,
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id), created_at TIMESTAMPTZ NOT NULL,
    used_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (issuer, subject)
);
CREATE INDEX sso_identities_by_account ON sso_identities (account_id);

-- Workspaces
CREATE TABLE workspaces (
    id TEXT COLLATE "C" PRIMARY KEY,  -- part of the hash of codes: never changes
    slug TEXT COLLATE "C" NOT NULL UNIQUE, name TEXT NOT NULL,
    hit_quota BIGINT CHECK (hit_quota >= 0),  -- null: the instance's
    link_quota BIGINT CHECK (link_quota >= 0),  -- null: the instance's
    created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL,
    default_strategy TEXT COLLATE "C" NOT NULL DEFAULT 'DETERMINISTIC'
        CHECK (default_strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM')),
    default_redirect_status INTEGER NOT NULL DEFAULT 302 CHECK (default_redirect_status IN (301, 302, 307, 308)),
    primary_host TEXT COLLATE "C",  -- the verified domain of displayed short URLs
    deleted_at TIMESTAMPTZ, purged_at TIMESTAMPTZ,  -- when all data but the slugs was deleted
    routing_defaults JSONB,  -- of new links
    not_found_url TEXT, ended_url TEXT, qr_style JSONB,
    qr_logo BYTEA,  -- not part of qr_style, because nearly no query needs it
    inspectable BOOLEAN NOT NULL DEFAULT FALSE,  -- whether a short URL followed by + shows its destination
    case_sensitive_codes BOOLEAN NOT NULL DEFAULT true,  -- never becomes true again
    require_second_factor BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX workspaces_to_purge ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
-- The workspace of links without an owner. It has no members.
INSERT INTO workspaces (id, slug, name, created_at, updated_at)
VALUES ('ws_00000000000000000000000000', 'public', 'Public', '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00');

-- All current and former slugs of workspaces. A slug is never reused by another workspace.
CREATE TABLE slugs (
    slug TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX slugs_by_workspace ON slugs (workspace_id);
INSERT INTO slugs (slug, workspace_id, created_at) SELECT slug, id, created_at FROM workspaces;

-- A membership from single sign-on follows the groups of the provider. Only members make owners.
CREATE TABLE members (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    created_at TIMESTAMPTZ NOT NULL,
    source TEXT COLLATE "C" NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'sso'))
        CHECK (source = 'manual' OR role <> 'OWNER'),
    PRIMARY KEY (workspace_id, account_id)
);
CREATE INDEX members_by_account ON members (account_id, workspace_id);

-- The workspaces of the slugs in LINKFORGE_SSO_MEMBERSHIPS, since the start that first named them.
CREATE TABLE sso_workspaces (
    slug TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id)
);
CREATE TABLE invitations (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    email TEXT COLLATE "C" NOT NULL,  -- in lower case
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    token_hash BYTEA NOT NULL UNIQUE,  -- SHA-256
    invited_by TEXT COLLATE "C" NOT NULL REFERENCES accounts (id), created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL, accepted_at TIMESTAMPTZ, accepted_by TEXT COLLATE "C" REFERENCES accounts (id)
);
-- At most one pending invitation per address and workspace.
CREATE UNIQUE INDEX invitations_pending ON invitations (workspace_id, email) WHERE accepted_at IS NULL;
CREATE INDEX invitations_in_workspace ON invitations (workspace_id, id);
CREATE INDEX invitations_by_email ON invitations (email);
CREATE INDEX invitations_by_age ON invitations (expires_at);

-- destination_hosts, origins and networks are JSON; an empty list limits nothing.
CREATE TABLE api_keys (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    name TEXT NOT NULL, prefix TEXT NOT NULL,  -- the first characters of the secret, which identify the key to users
    hash BYTEA NOT NULL UNIQUE,  -- SHA-256 of the secret
    scopes TEXT NOT NULL,  -- separated by spaces
    created_by TEXT COLLATE "C" NOT NULL REFERENCES accounts (id), created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ, last_used_at TIMESTAMPTZ, revoked_at TIMESTAMPTZ,
    old_hash BYTEA,  -- of the secret before the last rotation, which is valid until it ends
    old_hash_ends_at TIMESTAMPTZ, destination_hosts TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    origins TEXT COLLATE "C" NOT NULL DEFAULT '[]', networks TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    requests_per_minute BIGINT,
    folders TEXT COLLATE "C",  -- the folders that it is restricted to, as JSON; null: no restriction
    links_per_day BIGINT  -- of a publishable key; null: a tenth of the workspace's quota of a month
);
CREATE INDEX api_keys_in_workspace ON api_keys (workspace_id, id);
CREATE UNIQUE INDEX api_keys_by_old_hash ON api_keys (old_hash) WHERE old_hash IS NOT NULL;
CREATE TABLE domains (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    host TEXT COLLATE "C" NOT NULL,  -- canonical
    token TEXT NOT NULL,  -- the required value of the TXT record
    created_at TIMESTAMPTZ NOT NULL, verified_at TIMESTAMPTZ,
    checked_at TIMESTAMPTZ,  -- the last lookup of the TXT record
    failed_at TIMESTAMPTZ,  -- since when the TXT record of a verified domain has been missing
    root_url TEXT, not_found_url TEXT, ended_url TEXT, favicon_url TEXT, indexable BOOLEAN NOT NULL DEFAULT FALSE,
    apple_app_site_association TEXT, asset_links TEXT, code_space TEXT COLLATE "C" NOT NULL DEFAULT 'SHARED',
    case_sensitive BOOLEAN NOT NULL DEFAULT true, UNIQUE (workspace_id, host)
);
-- Any workspace may add a host; at most one workspace can have it verified.
CREATE UNIQUE INDEX domains_verified ON domains (host) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_in_workspace ON domains (workspace_id, id);

-- Verified hosts are public in DNS, their workspaces are not. The view runs with the rights of its owner.
CREATE VIEW verified_hosts AS SELECT host FROM domains WHERE verified_at IS NOT NULL;

-- The workspace that had a host, by time span. A removed domain leaves its spans.
CREATE TABLE host_owners (
    host TEXT COLLATE "C" NOT NULL,  -- canonical
    workspace_id TEXT COLLATE "C" NOT NULL, starts_at TIMESTAMPTZ NOT NULL,
    ends_at TIMESTAMPTZ,  -- the first instant after it; null: it has the host
    domain_id TEXT COLLATE "C",  -- if the domain had codes of its own
    case_sensitive BOOLEAN NOT NULL DEFAULT true, PRIMARY KEY (host, starts_at)
);
CREATE UNIQUE INDEX host_owners_now ON host_owners (host) WHERE ends_at IS NULL;
CREATE TABLE folders (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL, name_key TEXT COLLATE "C" NOT NULL,  -- the name without regard to case
    created_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX folders_by_name ON folders (workspace_id, name_key);

-- Named values of campaign parameters, which are copied into links.
CREATE TABLE utm_templates (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL, name_key TEXT COLLATE "C" NOT NULL,  -- the name without regard to case
    utm JSONB NOT NULL, created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX utm_templates_by_name ON utm_templates (workspace_id, name_key);

-- Stored results of calls with an idempotency key.
CREATE TABLE idempotency_keys (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id), actor_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,  -- the key of the caller
    input_hash BYTEA NOT NULL,  -- SHA-256
    answer TEXT NOT NULL,  -- JSON
    created_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (workspace_id, actor_id, name)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Links

-- A row is the newest version of its link; link_versions has the superseded ones. The code of a link on a domain with
-- codes of its own is 'domain id/key', and own_address is its host and code as given. Such a domain cannot be removed
-- while it has links that are not deleted: they would be left without it.
CREATE TABLE links (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    code TEXT COLLATE "C" NOT NULL,
    root_code TEXT COLLATE "C" UNIQUE,  -- set when the code answers at the root: unique over the instance
    strategy TEXT COLLATE "C" NOT NULL CHECK (strategy IN ('DETERMINISTIC', 'COUNTER', 'RANDOM', 'CUSTOM')),
    original_url TEXT NOT NULL, canonical_url TEXT NOT NULL,
    canonical_hash BYTEA NOT NULL,  -- SHA-256: a URL itself may be too long for an index
    title TEXT, redirect_status INTEGER NOT NULL CHECK (redirect_status IN (301, 302, 307, 308)),
    starts_at TIMESTAMPTZ, expires_at TIMESTAMPTZ, created_by TEXT COLLATE "C" REFERENCES accounts (id),
    created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL, deleted_at TIMESTAMPTZ, disabled_at TIMESTAMPTZ,
    note TEXT, max_clicks BIGINT CHECK (max_clicks > 0),
    ended_at TIMESTAMPTZ,  -- when it was deleted or, set by the clean-up job, when it expired
    purged_at TIMESTAMPTZ,  -- when all data but the columns that reserve the code was deleted
    claim_hash BYTEA,  -- SHA-256 of an anonymous link's claim token
    title_key TEXT COLLATE "C" NOT NULL DEFAULT '',  -- the sort key of the title
    search TEXT COLLATE "C" NOT NULL DEFAULT '',  -- title, note, URL and code, normalized for search
    destination_status INTEGER,  -- the last HTTP status of the destination
    last_checked_at TIMESTAMPTZ, check_at TIMESTAMPTZ,  -- when the destination is due for its next check
    check_failures INTEGER NOT NULL DEFAULT 0,  -- consecutive
    stats_public BOOLEAN NOT NULL DEFAULT FALSE, routing JSONB,  -- see route/routing/value.go; null: a plain link
    version INTEGER NOT NULL DEFAULT 1, version_cause TEXT COLLATE "C" NOT NULL DEFAULT 'CREATED',
    version_actor TEXT COLLATE "C" NOT NULL DEFAULT '',  -- as actor_id in audit_events
    version_operation TEXT COLLATE "C",  -- as operation_id in audit_events
    started_at TIMESTAMPTZ,  -- starts_at, once its event is recorded
    expired_at TIMESTAMPTZ,  -- expires_at, once its event is recorded
    reported_state TEXT COLLATE "C",  -- the state of the URL in the event log; null before the first response
    external_id TEXT COLLATE "C",
    metadata TEXT COLLATE "C" NOT NULL DEFAULT '',  -- JSON, in the order of the keys; empty: none
    host_key TEXT COLLATE "C" NOT NULL DEFAULT '',  -- labels of the host in reverse: com.example.www.
    version_starts_at TIMESTAMPTZ,  -- when the newest version took effect; null: updated_at
    next_change_at TIMESTAMPTZ,  -- of scheduled_changes, by their triggers: other links cost nothing
    password_hash TEXT COLLATE "C",  -- routing has the password's name: a change of one changes both
    code_key TEXT COLLATE "C",  -- a custom code in lower case; never removed
    folder_id TEXT COLLATE "C" REFERENCES folders (id), own_address TEXT COLLATE "C",
    domain_id TEXT COLLATE "C" REFERENCES domains (id) ON DELETE SET NULL
        CONSTRAINT own_code_has_domain CHECK (own_address IS NULL OR domain_id IS NOT NULL OR deleted_at IS NOT NULL),
    archived BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX links_by_code ON links (workspace_id, code);
CREATE UNIQUE INDEX links_by_code_key ON links (workspace_id, code_key) WHERE code_key IS NOT NULL;
-- Concurrent calls with the same URL in the same workspace get the same link.
CREATE UNIQUE INDEX links_by_canonical ON links (workspace_id, canonical_hash) WHERE strategy = 'DETERMINISTIC';
CREATE UNIQUE INDEX links_by_external_id ON links (workspace_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX links_by_claim ON links (claim_hash) WHERE claim_hash IS NOT NULL;
-- With the columns of common filters, so that neither skipping nor counting reads the links, and creation updates one
-- index for all of them. SQLite needs purged_at too.
CREATE INDEX links_of_workspace ON links (workspace_id, id, created_at, archived, deleted_at, disabled_at, purged_at,
    created_by, host_key) WHERE purged_at IS NULL;
CREATE INDEX links_by_title ON links (workspace_id, title_key, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_update ON links (workspace_id, updated_at, id) WHERE purged_at IS NULL;
CREATE INDEX links_by_expiration ON links (workspace_id, expires_at, id)
    WHERE expires_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_with_routing ON links (workspace_id, id) WHERE routing IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_by_folder ON links (folder_id, id) WHERE folder_id IS NOT NULL;
CREATE INDEX links_by_domain ON links (domain_id) WHERE domain_id IS NOT NULL;
-- Queues of the jobs: only links with work to do are in these.
CREATE INDEX links_to_purge ON links (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX links_to_check ON links (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX links_to_change ON links (next_change_at) WHERE next_change_at IS NOT NULL;
CREATE INDEX links_to_start ON links (starts_at)
    WHERE starts_at IS NOT NULL AND started_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_expire ON links (expires_at)
    WHERE expires_at IS NOT NULL AND expired_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE TABLE link_versions (
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE, number INTEGER NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL, starts_at TIMESTAMPTZ NOT NULL,
    ends_at TIMESTAMPTZ NOT NULL,  -- when the next version starts
    cause TEXT COLLATE "C" NOT NULL, actor_id TEXT COLLATE "C" NOT NULL, snapshot TEXT NOT NULL,  -- JSON
    operation_id TEXT COLLATE "C",  -- as in audit_events
    PRIMARY KEY (link_id, number)
);
CREATE TABLE link_tags (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id), tag TEXT COLLATE "C" NOT NULL,
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, tag, link_id)
);
CREATE INDEX link_tags_by_link ON link_tags (link_id, tag);

-- The pairs of links.metadata, for filters.
CREATE TABLE link_metadata (
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE, key TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL, value TEXT COLLATE "C" NOT NULL, PRIMARY KEY (link_id, key)
);
CREATE INDEX link_metadata_by_pair ON link_metadata (workspace_id, key, value, link_id);

-- The URLs of routings, for blocking and for checks of destinations. The link's own URL is in links.
CREATE TABLE link_urls (
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    field TEXT COLLATE "C" NOT NULL,  -- as in rules.0.targets.1.url
    workspace_id TEXT COLLATE "C" NOT NULL, host TEXT COLLATE "C" NOT NULL,  -- canonical
    url TEXT COLLATE "C" NOT NULL, destination_status INTEGER,  -- this column and the next as in links
    last_checked_at TIMESTAMPTZ,
    check_at TIMESTAMPTZ,  -- null for a URL with a placeholder, which has no single destination
    check_failures INTEGER NOT NULL DEFAULT 0, reported_state TEXT COLLATE "C", PRIMARY KEY (link_id, field)
);
CREATE INDEX link_urls_by_host ON link_urls (host, link_id);
CREATE INDEX link_urls_to_check ON link_urls (check_at) WHERE check_at IS NOT NULL;

-- The redirects that links and targets with a maximum have granted. The subject is a link or a target: a redirect
-- updates this small row, and none of links. A row stays when its subject loses the maximum, so that the count is known
-- when it gets one again.
CREATE TABLE grants (
    subject_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE, workspace_id TEXT COLLATE "C" NOT NULL,
    max_clicks BIGINT,  -- null: no maximum any more
    granted BIGINT NOT NULL DEFAULT 0,
    exhausted_at TIMESTAMPTZ,  -- when the recorded clicks of a link had reached max_clicks
    clicks_before BIGINT NOT NULL DEFAULT 0  -- clicks of the purged link that had the code before
);
CREATE INDEX grants_by_link ON grants (link_id);
-- Only links with a transition to record are in the index.
CREATE INDEX grants_to_exhaust ON grants (subject_id)
    WHERE granted >= max_clicks AND exhausted_at IS NULL AND subject_id = link_id;

-- The grants of a link, for lists of links. The low cost is that of the many links without a maximum.
CREATE FUNCTION granted_of(subject TEXT) RETURNS BIGINT LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS $$
BEGIN RETURN (SELECT granted FROM grants WHERE subject_id = subject); END $$;

-- How many links a workspace created in a calendar month.
CREATE TABLE link_usage (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id), month TEXT COLLATE "C" NOT NULL,  -- YYYY-MM
    links BIGINT NOT NULL, PRIMARY KEY (workspace_id, month)
);
-- How many links a publishable key created on its last day with any.
CREATE TABLE key_usage (
    key_id TEXT COLLATE "C" NOT NULL PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,  -- YYYY-MM-DD
    links BIGINT NOT NULL
);
CREATE TABLE scheduled_changes (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE, workspace_id TEXT COLLATE "C" NOT NULL,
    due_at TIMESTAMPTZ NOT NULL, patch TEXT NOT NULL,  -- JSON, see internal/schedule
    actor_id TEXT COLLATE "C" NOT NULL,  -- as in audit_events
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX scheduled_changes_of_link ON scheduled_changes (link_id, due_at, id);

-- Blocked destination hosts, including all their subdomains.
CREATE TABLE blocked_hosts (host TEXT COLLATE "C" PRIMARY KEY, reason TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL);
-- Why the operator has disabled a link, which has disabled_at as long as there is a row.
CREATE TABLE disabled_links (
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    host TEXT COLLATE "C" NOT NULL,  -- empty: the link by itself
    created_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (link_id, host)
);

-- Abuse reports, for the operator.
CREATE TABLE reports (
    id TEXT COLLATE "C" PRIMARY KEY, link_id TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL CHECK (reason IN ('SPAM', 'PHISHING', 'MALWARE', 'ILLEGAL', 'OTHER')),
    details TEXT, created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX reports_by_link ON reports (link_id, id);

-- Search of links

-- Substring search within a workspace, by trigrams. Both extensions are part of PostgreSQL and trusted: the owner of
-- the database may create them. Texts are indexed in the background, in a table of their own: neither creations nor the
-- clean-up of their rolled-back rows touch the index. Package linklist moves texts from the queue to link_texts, and
-- searches both.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;
CREATE TABLE link_texts (
    link_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES links (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL, search TEXT COLLATE "C" NOT NULL  -- as in links
);
-- Each search reads the list of pending texts, and the transaction that fills it empties it, which is the job's alone:
-- 4 MB halve the WAL of a text compared with 1 MB.
CREATE INDEX link_texts_by_search ON link_texts USING gin (workspace_id, search gin_trgm_ops)
    WITH (gin_pending_list_limit = 4096);

-- The links whose texts have changed. The order of the numbers is not that of the commits.
CREATE TABLE link_text_queue (
    number BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY, link_id TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL
);
CREATE INDEX link_text_queue_in_workspace ON link_text_queue (workspace_id, link_id);

-- New links are queued once per statement: for a thousand links, a row trigger took an eighth of the time.
CREATE FUNCTION queue_link_texts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO link_text_queue (link_id, workspace_id) SELECT id, workspace_id FROM created; RETURN NULL; END $$;
CREATE TRIGGER link_text_created AFTER INSERT ON links REFERENCING NEW TABLE AS created
    FOR EACH STATEMENT EXECUTE FUNCTION queue_link_texts();
CREATE FUNCTION queue_link_text() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO link_text_queue (link_id, workspace_id) VALUES (NEW.id, NEW.workspace_id); RETURN NULL; END $$;
CREATE TRIGGER link_text_changed AFTER UPDATE OF search, workspace_id ON links FOR EACH ROW
    WHEN (NEW.search <> OLD.search OR NEW.workspace_id <> OLD.workspace_id) EXECUTE FUNCTION queue_link_text();
CREATE FUNCTION unqueue_link_text() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN DELETE FROM link_text_queue WHERE workspace_id = OLD.workspace_id AND link_id = OLD.id; RETURN NULL; END $$;
CREATE TRIGGER link_text_deleted AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION unqueue_link_text();

-- Clicks

-- Clicks and rollups outlive their links: no foreign keys. Unknown values of a click are null. Months are partitions:
-- one that is no longer kept is dropped.
CREATE TABLE clicks (
    id BIGINT NOT NULL, workspace_id TEXT COLLATE "C" NOT NULL, link_id TEXT COLLATE "C" NOT NULL,
    clicked_at TIMESTAMPTZ NOT NULL, latency_ms DOUBLE PRECISION NOT NULL,
    visit BOOLEAN NOT NULL,  -- the first of a visitor of the link on that day
    bot BOOLEAN NOT NULL, status INTEGER NOT NULL,  -- of the redirect
    referrer TEXT,  -- a host
    country TEXT,  -- ISO 3166-1 alpha-2
    device TEXT, browser TEXT, os TEXT, language TEXT,  -- ISO 639
    utm_source TEXT, utm_medium TEXT, utm_campaign TEXT, utm_term TEXT, utm_content TEXT,
    rule_id TEXT COLLATE "C",  -- the rule that chose the destination, and its target
    target_id TEXT COLLATE "C", qr_source TEXT COLLATE "C",  -- of the QR code that was scanned
    PRIMARY KEY (workspace_id, clicked_at, id)
) PARTITION BY RANGE (clicked_at);
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at, id);

-- The rollup of a day that is over, per link and per workspace over all its links. The latency is a running mean and
-- sum of squared deviations, in milliseconds.
CREATE TABLE click_days (
    subject_id TEXT COLLATE "C" NOT NULL,  -- a link, or a workspace
    starts_at TIMESTAMPTZ NOT NULL, workspace_id TEXT COLLATE "C" NOT NULL, clicks BIGINT NOT NULL,
    visits BIGINT NOT NULL, bots BIGINT NOT NULL, latency_mean DOUBLE PRECISION NOT NULL,
    latency_m2 DOUBLE PRECISION NOT NULL,
    counts BYTEA NOT NULL,  -- by dimension and value: see internal/click/counts.go
    PRIMARY KEY (subject_id, starts_at)
);
CREATE INDEX click_days_of_workspace ON click_days (workspace_id, starts_at);

-- All clicks of a link, or of the links of a workspace. Months are numbered from the year 0. Clicks that are not in
-- click_days yet are counted from their rows.
CREATE TABLE click_totals (
    subject_id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL, clicks BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL, latency_m2 DOUBLE PRECISION NOT NULL, bots BIGINT NOT NULL DEFAULT 0,
    last_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',  -- the latest click
    sealed_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',  -- the days before are in click_days
    _sealed_clicks BIGINT NOT NULL DEFAULT 0,  -- about how many clicks are in click_days
    _month INTEGER NOT NULL DEFAULT 0,  -- that of the latest click
    _before_month BIGINT NOT NULL DEFAULT 0,  -- the clicks before it
    _before_last BIGINT NOT NULL DEFAULT 0,  -- the clicks before the month that precedes it
    _outage BIGINT NOT NULL DEFAULT 0  -- the clicks of _month whose hits were granted without Redis
);
CREATE INDEX click_totals_by_clicks ON click_totals (workspace_id, clicks, subject_id);
CREATE INDEX click_totals_by_last_click ON click_totals (workspace_id, last_at, subject_id);

-- How far each click log has been ingested. A batch and the position of its log are written together, so that a batch
-- that is repeated changes nothing. A store of clicks beside this database has no transactions: the batch that the log
-- sends to it is recorded first.
CREATE TABLE click_logs (
    id TEXT COLLATE "C" PRIMARY KEY, position BIGINT NOT NULL,
    _sending_id BIGINT NOT NULL DEFAULT 0,  -- the first id of the batch; 0 without one
    _sending_clicks BIGINT NOT NULL DEFAULT 0,  -- how many it has; negative when it was given up
    _alive_at TIMESTAMPTZ,  -- in a row of its own, report/ID: the last report of the log's process, with:
    _has_redis BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX click_logs_by_report ON click_logs (_alive_at);

-- Claimed links whose clicks a store beside this database has to move to another workspace.
CREATE TABLE click_moves (
    link_id TEXT COLLATE "C" PRIMARY KEY, to_workspace TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,  -- how often the move was requested
    attempt BIGINT NOT NULL DEFAULT 0  -- the number of the latest attempt
);

-- Clicks that were written together, in the order of delivery to subscribers.
CREATE TABLE click_batches (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid BIGINT NOT NULL DEFAULT pg_current_xact_id()::TEXT::BIGINT, first_id BIGINT NOT NULL, last_id BIGINT NOT NULL,
    first_at TIMESTAMPTZ NOT NULL, last_at TIMESTAMPTZ NOT NULL, written_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX click_batches_by_xid ON click_batches (xid);
CREATE INDEX click_batches_by_click ON click_batches (last_id);

-- The visitors of links on a day, for as long as each has to be counted once. Days are numbered since 1970.
CREATE TABLE visitors (
    day INTEGER NOT NULL, visitor BIGINT NOT NULL,  -- a hash of visitor and link under the day's key
    PRIMARY KEY (day, visitor)
);
CREATE TABLE visitor_keys (day INTEGER NOT NULL PRIMARY KEY, key BYTEA NOT NULL);

-- Unmatched requests: those that matched no active link, by code.
CREATE TABLE unmatched (
    workspace_id TEXT COLLATE "C" NOT NULL, day INTEGER NOT NULL,  -- since 1970
    code TEXT COLLATE "C" NOT NULL,  -- empty: all others
    status INTEGER NOT NULL, requests BIGINT NOT NULL, last_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, day, code, status)
);

-- Creates the partition of a month. The role that ingests clicks owns no tables, and may do only this.
CREATE FUNCTION keep_month(month TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
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

-- Drops the months that end by an instant.
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
REVOKE EXECUTE ON FUNCTION keep_month, forget_months FROM PUBLIC;

-- Events and webhooks

-- The audit log is also the event log: transactions by xid, and events of one transaction by seq. Events without seq
-- are not part of the event log. The events of a bulk call have its operation_id, which revertOperation undoes; their
-- ids are greater than its own, so no index is needed to find them.
CREATE SEQUENCE audit_events_seq;
CREATE TABLE audit_events (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    actor_id TEXT COLLATE "C" NOT NULL,  -- the id of an account or API key; empty for the server itself
    action TEXT COLLATE "C" NOT NULL, target_id TEXT COLLATE "C" NOT NULL, details TEXT NOT NULL,  -- JSON
    created_at TIMESTAMPTZ NOT NULL, version INTEGER,  -- of the link after the change
    changes TEXT,  -- JSON: fields with their values before and after
    xid BIGINT DEFAULT pg_current_xact_id()::TEXT::BIGINT, seq BIGINT DEFAULT nextval('audit_events_seq'),
    operation_id TEXT COLLATE "C", effective_at TIMESTAMPTZ,  -- when the change took effect; null: created_at
    url TEXT  -- the destination that the event is about
);
CREATE INDEX audit_events_in_workspace ON audit_events (workspace_id, id);
CREATE INDEX audit_events_by_target ON audit_events (target_id, id);
CREATE INDEX audit_events_by_actor ON audit_events (actor_id, id);
CREATE INDEX audit_events_in_order ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_events_by_commit ON audit_events (xid, seq) WHERE seq IS NOT NULL;  -- of all workspaces
-- Readers of types that hardly occur do not read all others. Package audit has the list too.
CREATE INDEX audit_events_rare ON audit_events (workspace_id, xid, seq) WHERE seq IS NOT NULL
    AND action NOT IN ('LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED', 'LINK_RESTORED', 'LINK_CLAIMED');

-- A webhook has deliveries of the events up to (xid, seq), and is behind if (until_xid, until_seq) is later;
-- (click_xid, click_seq) is the same of clicks. due_at is when its deliveries have to be looked at.
CREATE TABLE webhooks (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    name TEXT NOT NULL, url TEXT NOT NULL, host TEXT COLLATE "C" NOT NULL,  -- of url, canonical
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('ACTIVE', 'PAUSED', 'DISABLED')),
    blocked BOOLEAN NOT NULL DEFAULT FALSE,  -- disabled by the operator
    secret BYTEA NOT NULL,  -- sealed
    old_secret BYTEA, old_secret_ends_at TIMESTAMPTZ, xid BIGINT NOT NULL, seq BIGINT NOT NULL,
    click_xid BIGINT NOT NULL DEFAULT 0, click_seq BIGINT NOT NULL DEFAULT 0,
    skipped_clicks BIGINT NOT NULL DEFAULT 0, due_at TIMESTAMPTZ,
    failing_since TIMESTAMPTZ,  -- since when all attempts have failed
    created_at TIMESTAMPTZ NOT NULL, created_by TEXT COLLATE "C" NOT NULL,  -- the id of an account or API key
    notice TEXT COLLATE "C" CHECK (notice IN ('RECEIVER', 'API_KEY', 'MEMBER')),  -- an email to be sent
    deleted_at TIMESTAMPTZ,  -- the clean-up removes it, with its deliveries
    kept_by TEXT COLLATE "C",  -- the account that enabled it after its creator lost the permission
    concurrency BIGINT NOT NULL DEFAULT 2,  -- the deliveries that all nodes may send at once
    until_xid BIGINT NOT NULL DEFAULT 0, until_seq BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX webhooks_in_workspace ON webhooks (workspace_id, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_by_host ON webhooks (host);
CREATE INDEX webhooks_to_announce ON webhooks (id) WHERE notice IS NOT NULL;
CREATE INDEX webhooks_deleted ON webhooks (id) WHERE deleted_at IS NOT NULL;

-- Types and tags of webhooks are rows, which an index finds.
CREATE TABLE webhook_types (
    type TEXT COLLATE "C" NOT NULL, workspace_id TEXT COLLATE "C" NOT NULL,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    PRIMARY KEY (type, workspace_id, webhook_id)
);
CREATE INDEX webhook_types_of_webhook ON webhook_types (webhook_id);
CREATE TABLE webhook_tags (
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE, tag TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL, PRIMARY KEY (webhook_id, tag)
);

-- All webhooks share a reader of each log, which marks those with new events and creates the deliveries of clicks. Its
-- position is (xid, seq) of events, or of batches of clicks that were written until read_at.
CREATE TABLE webhook_readers (
    log TEXT COLLATE "C" PRIMARY KEY CHECK (log IN ('CLICKS', 'EVENTS')), xid BIGINT NOT NULL, seq BIGINT NOT NULL,
    read_at TIMESTAMPTZ NOT NULL, lease_until TIMESTAMPTZ,
    lease_holder TEXT COLLATE "C"  -- the node that reads
);
INSERT INTO webhook_readers
    SELECT log, pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT - 1, 9223372036854775807, now()
    FROM (VALUES ('EVENTS'), ('CLICKS')) AS logs (log);
CREATE TABLE webhook_deliveries (
    id TEXT COLLATE "C" PRIMARY KEY, workspace_id TEXT COLLATE "C" NOT NULL,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id TEXT COLLATE "C" NOT NULL,  -- or the id of the first click
    clicks BIGINT NOT NULL DEFAULT 0,
    subject_id TEXT COLLATE "C" NOT NULL,  -- first attempts about one subject are sent in the order of number
    type TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('WAITING', 'DELIVERED', 'FAILED', 'SKIPPED')),
    tries INTEGER NOT NULL DEFAULT 0,  -- since the schedule of attempts began
    due_at TIMESTAMPTZ,  -- null while an earlier one of its subject is first
    claimed_until TIMESTAMPTZ,  -- when a node that sends it loses it to others
    first_tried_at TIMESTAMPTZ,  -- the first attempt since the schedule began
    created_at TIMESTAMPTZ NOT NULL,
    click_ids TEXT NOT NULL DEFAULT '',  -- of a batch, separated by spaces: bodies are rendered for each attempt
    UNIQUE (webhook_id, event_id)
);
CREATE INDEX webhook_deliveries_in_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE status = 'WAITING';
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (webhook_id, subject_id, number)
    WHERE status = 'WAITING' AND tries = 0;
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id, claimed_until)
    WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
CREATE TABLE webhook_attempts (
    delivery_id TEXT COLLATE "C" NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
    number INTEGER NOT NULL, workspace_id TEXT COLLATE "C" NOT NULL, sent_at TIMESTAMPTZ NOT NULL,
    status INTEGER,  -- of the response
    error TEXT COLLATE "C", duration_ms INTEGER NOT NULL, PRIMARY KEY (delivery_id, number)
);

-- A row while the operator has stopped all webhooks.
CREATE TABLE webhook_stops (id TEXT COLLATE "C" PRIMARY KEY CHECK (id = 'all'), stopped_at TIMESTAMPTZ NOT NULL);

-- Tasks and imports

-- Long operations of workspaces, with their progress. A node holds a running one by a lease.
CREATE TABLE tasks (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    kind TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL
        CHECK (status IN ('WAITING_FOR_UPLOAD', 'QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    input TEXT COLLATE "C" NOT NULL,  -- arguments, as JSON
    cursor TEXT COLLATE "C" NOT NULL DEFAULT '',  -- where its handler resumes
    done BIGINT NOT NULL DEFAULT 0, total BIGINT, lease_holder TEXT COLLATE "C", lease_until TIMESTAMPTZ,
    attempts INTEGER NOT NULL DEFAULT 0,  -- leases since it last advanced
    due_at TIMESTAMPTZ NOT NULL,  -- before then, no node takes it
    cancel_requested_at TIMESTAMPTZ, error_code TEXT COLLATE "C", error TEXT COLLATE "C",
    actor_id TEXT COLLATE "C" NOT NULL,  -- the account or the API key that started it
    operation_id TEXT COLLATE "C" NOT NULL, created_at TIMESTAMPTZ NOT NULL, started_at TIMESTAMPTZ,
    updated_at TIMESTAMPTZ NOT NULL, finished_at TIMESTAMPTZ,
    secret BYTEA,  -- of the arguments, sealed, such as an API token; null once it has ended
    upload TEXT COLLATE "C",  -- the upload that is its file, or is to be; null: none
    keeps_file BOOLEAN NOT NULL DEFAULT FALSE,  -- the file outlives the successful task
    outside BOOLEAN NOT NULL DEFAULT FALSE,  -- its next steps wait for other servers
    file_bytes BIGINT NOT NULL DEFAULT 0,  -- of its file, also of one that is being received
    stored_rows BIGINT NOT NULL DEFAULT 0,  -- of its report
    CHECK ((status = 'RUNNING') = (lease_holder IS NOT NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL))
);
CREATE INDEX tasks_by_workspace ON tasks (workspace_id, id);
CREATE INDEX tasks_unfinished ON tasks (id) WHERE finished_at IS NULL;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_running ON tasks (workspace_id, kind) WHERE status = 'RUNNING';
CREATE INDEX tasks_stored ON tasks (workspace_id) WHERE file_bytes > 0 OR stored_rows > 0;

-- The file of a task, in chunks. Those of an interrupted upload stay until the next one.
CREATE TABLE task_chunks (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    upload TEXT COLLATE "C" NOT NULL, number INTEGER NOT NULL, bytes BYTEA NOT NULL,
    PRIMARY KEY (task_id, upload, number)
);
CREATE INDEX task_chunks_by_workspace ON task_chunks (workspace_id);

-- The rows of an import, with their outcomes.
CREATE TABLE import_rows (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,  -- from 1, in the order of the source
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, line BIGINT NOT NULL,
    source_id TEXT COLLATE "C" NOT NULL, source_url TEXT COLLATE "C" NOT NULL,  -- empty: the source has none
    host TEXT COLLATE "C" NOT NULL, hash BYTEA NOT NULL,  -- of the link that the row describes
    outcome TEXT COLLATE "C" NOT NULL, code TEXT COLLATE "C", canonical_hash BYTEA,  -- of its destination
    link_id TEXT COLLATE "C", losses TEXT COLLATE "C",  -- as JSON; null: none
    errors TEXT COLLATE "C", PRIMARY KEY (task_id, number)
);
-- Values come first: SQLite, which has no statistics, would read all rows of a task rather than look up many values.
CREATE INDEX import_rows_by_source ON import_rows (source_id, task_id);
CREATE INDEX import_rows_by_link ON import_rows (link_id, task_id) WHERE link_id IS NOT NULL;
CREATE INDEX import_rows_by_workspace ON import_rows (workspace_id);

-- The codes, external ids, destinations and names of folders that earlier rows of a dry run would have taken.
CREATE TABLE import_claims (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, claim TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,  -- of the row
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE, PRIMARY KEY (task_id, claim)
);
CREATE INDEX import_claims_by_workspace ON import_claims (workspace_id);

-- The sources of imported links. A later import of the same row finds its link by it.
CREATE TABLE link_origins (
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    source TEXT COLLATE "C" NOT NULL, label TEXT COLLATE "C" NOT NULL, source_id TEXT COLLATE "C" NOT NULL,
    link_id TEXT COLLATE "C" NOT NULL REFERENCES links (id) ON DELETE CASCADE, source_url TEXT COLLATE "C",
    hash BYTEA NOT NULL, source_created_at TIMESTAMPTZ, clicks BIGINT, last_clicked_at TIMESTAMPTZ,
    imported_at TIMESTAMPTZ NOT NULL,
    operation_id TEXT COLLATE "C",  -- of the import that wrote the hash, which undoing it replaces by the first one of
    previous_hash BYTEA,  -- those before, newest first; null: the row was unknown before the operation
    root_proof TEXT COLLATE "C" NOT NULL DEFAULT '',  -- the signature of a code at the root, in an archive
    PRIMARY KEY (workspace_id, source, label, source_id)
);
CREATE INDEX link_origins_by_link ON link_origins (link_id, imported_at);

-- The comparisons of a parity check.
CREATE TABLE parity_rows (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, number BIGINT NOT NULL,  -- from 1
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    link_id TEXT COLLATE "C" NOT NULL, source_url TEXT COLLATE "C" NOT NULL, verdict TEXT COLLATE "C" NOT NULL,
    source_status INTEGER,  -- null: no response
    source_location TEXT COLLATE "C", status INTEGER NOT NULL, location TEXT COLLATE "C",
    checked_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (task_id, number)
);
CREATE INDEX parity_rows_by_workspace ON parity_rows (workspace_id);

-- Triggers that write changes, for the caches of all nodes
CREATE FUNCTION link_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/' || OLD.code);
    IF TG_OP = 'UPDATE' AND (NEW.workspace_id, NEW.code) <> (OLD.workspace_id, OLD.code) THEN
        INSERT INTO changes (subject) VALUES (NEW.workspace_id || '/' || NEW.code);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER link_changed AFTER UPDATE ON links FOR EACH ROW
    WHEN ((OLD.workspace_id, OLD.code, OLD.root_code, OLD.original_url, OLD.redirect_status, OLD.starts_at,
            OLD.expires_at, OLD.max_clicks, OLD.routing, OLD.deleted_at, OLD.disabled_at, OLD.purged_at)
        IS DISTINCT FROM
        (NEW.workspace_id, NEW.code, NEW.root_code, NEW.original_url, NEW.redirect_status, NEW.starts_at,
            NEW.expires_at, NEW.max_clicks, NEW.routing, NEW.deleted_at, NEW.disabled_at, NEW.purged_at))
    EXECUTE FUNCTION link_changed();
CREATE TRIGGER link_removed AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION link_changed();
CREATE FUNCTION code_key_released() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO changes (subject) VALUES (OLD.workspace_id || '/^' || OLD.code_key); RETURN NULL; END $$;
CREATE TRIGGER code_key_released AFTER DELETE ON links FOR EACH ROW WHEN (OLD.code_key IS NOT NULL)
    EXECUTE FUNCTION code_key_released();

-- Nodes cache the pending states of a link, so each of its scheduled changes is a change of the link.
CREATE FUNCTION schedule_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    changed TEXT := COALESCE(NEW.link_id, OLD.link_id);
BEGIN
    UPDATE links SET next_change_at = (SELECT min(due_at) FROM scheduled_changes WHERE link_id = changed)
        WHERE id = changed;
    INSERT INTO changes (subject) SELECT workspace_id || '/' || code FROM links WHERE id = changed;
    RETURN NULL;
END $$;
CREATE TRIGGER change_scheduled AFTER INSERT ON scheduled_changes FOR EACH ROW EXECUTE FUNCTION schedule_changed();
CREATE TRIGGER scheduled_change_removed AFTER DELETE ON scheduled_changes FOR EACH ROW
    EXECUTE FUNCTION schedule_changed();
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
    WHEN ((OLD.hit_quota, OLD.deleted_at, OLD.purged_at, OLD.not_found_url, OLD.ended_url, OLD.case_sensitive_codes)
        IS DISTINCT FROM
        (NEW.hit_quota, NEW.deleted_at, NEW.purged_at, NEW.not_found_url, NEW.ended_url, NEW.case_sensitive_codes))
    EXECUTE FUNCTION place_changed();
CREATE TRIGGER slug_taken AFTER INSERT ON slugs FOR EACH ROW EXECUTE FUNCTION place_changed();
CREATE TRIGGER domain_changed AFTER UPDATE ON domains FOR EACH ROW
    WHEN ((OLD.verified_at, OLD.root_url, OLD.not_found_url, OLD.ended_url, OLD.favicon_url, OLD.indexable,
            OLD.apple_app_site_association, OLD.asset_links)
        IS DISTINCT FROM
        (NEW.verified_at, NEW.root_url, NEW.not_found_url, NEW.ended_url, NEW.favicon_url, NEW.indexable,
            NEW.apple_app_site_association, NEW.asset_links))
    EXECUTE FUNCTION place_changed();
CREATE TRIGGER domain_removed AFTER DELETE ON domains FOR EACH ROW
    WHEN (OLD.verified_at IS NOT NULL) EXECUTE FUNCTION place_changed();
CREATE FUNCTION session_revoked() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO changes (subject) VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER session_revoked AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION session_revoked();
CREATE FUNCTION session_methods_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN INSERT INTO changes (subject) VALUES (NEW.id || ' ' || NEW.methods); RETURN NULL; END $$;
CREATE TRIGGER session_methods_changed AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (OLD.methods <> NEW.methods) EXECUTE FUNCTION session_methods_changed();

-- Roles. Statements run as one of four, which own no tables and do not bypass policies (internal/db/scope.go):
--   linkforge_tenant reads and writes one workspace,
--   linkforge_creator creates links in several workspaces with one statement,
--   linkforge_resolver finds the workspace of an object,
--   linkforge_system runs jobs and dumps.
-- Roles are global to the database server: they are created once and not dropped.
DO $$
DECLARE
    name TEXT;
    how  TEXT := CASE WHEN current_setting('server_version_num')::INTEGER >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    FOREACH name IN ARRAY ARRAY['linkforge_tenant', 'linkforge_creator', 'linkforge_resolver', 'linkforge_system'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            END IF;
        EXCEPTION  -- created concurrently by the migration of another database
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
        -- Since PostgreSQL 16 the creator of a role may grant it, but is not a member with SET.
        IF NOT pg_has_role(session_user, name, how) THEN
            EXECUTE format('GRANT %I TO %I', name, session_user);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
    END LOOP;
END $$;

-- Rights
GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, sessions, refresh_tokens, auth_flows, totp, recovery_codes,
    sso_identities, workspaces, slugs, members, sso_workspaces, invitations, api_keys, domains, folders, utm_templates,
    idempotency_keys, links, link_tags, link_urls, link_usage, key_usage, audit_events, webhooks, webhook_types,
    webhook_tags, webhook_deliveries, webhook_attempts, tasks, task_chunks, import_rows, import_claims, link_origins,
    parity_rows
    TO linkforge_tenant, linkforge_system;

GRANT SELECT ON verified_hosts, blocked_hosts, link_texts, clicks, click_days, click_totals, unmatched, webhook_stops
    TO linkforge_tenant;
GRANT SELECT, INSERT ON instance, reports, host_owners TO linkforge_tenant;
GRANT UPDATE (ends_at) ON host_owners TO linkforge_tenant;
GRANT SELECT, INSERT, UPDATE ON counters TO linkforge_tenant;
GRANT SELECT, INSERT, DELETE ON link_versions, link_metadata, link_text_queue, scheduled_changes, grants
    TO linkforge_tenant;
GRANT UPDATE (max_clicks, workspace_id, exhausted_at) ON grants TO linkforge_tenant;  -- not granted
GRANT INSERT (subject) ON changes TO linkforge_tenant, linkforge_system;
GRANT USAGE ON SEQUENCE audit_events_seq TO linkforge_tenant, linkforge_creator, linkforge_system;

GRANT SELECT ON workspaces, members, folders, verified_hosts, blocked_hosts, scheduled_changes TO linkforge_creator;
GRANT SELECT (workspace_id, host) ON domains TO linkforge_creator;
GRANT SELECT, INSERT ON links, link_tags, link_usage, grants, audit_events TO linkforge_creator;
GRANT INSERT ON link_metadata, link_urls, link_text_queue TO linkforge_creator;
GRANT UPDATE (links) ON link_usage TO linkforge_creator;
GRANT UPDATE (max_clicks, workspace_id, exhausted_at) ON grants TO linkforge_creator;

GRANT SELECT ON changes, workspaces, slugs, invitations, api_keys, domains, verified_hosts, host_owners, folders,
    utm_templates, links, scheduled_changes, link_texts, link_text_queue, click_totals, webhooks,
    tasks TO linkforge_resolver;
GRANT UPDATE (last_used_at) ON api_keys TO linkforge_resolver;
GRANT SELECT (subject_id, granted, max_clicks) ON grants TO linkforge_resolver;
-- Redirects count the clicks of a link in a month, and see nothing else of a click.
GRANT SELECT (link_id, clicked_at) ON clicks TO linkforge_resolver;
GRANT SELECT (subject_id, starts_at, clicks) ON click_days TO linkforge_resolver;
GRANT SELECT (id, workspace_id) ON webhook_deliveries TO linkforge_resolver;

GRANT SELECT, INSERT, UPDATE, DELETE ON leases, acme_files, host_owners, link_versions, link_metadata, grants,
    scheduled_changes, blocked_hosts, reports, link_texts, link_text_queue, clicks, click_days, click_totals,
    click_logs, click_moves, click_batches, visitors, visitor_keys, unmatched TO linkforge_system;
GRANT SELECT, INSERT, UPDATE ON counters TO linkforge_system;
GRANT SELECT, DELETE ON changes TO linkforge_system;
GRANT SELECT, INSERT, DELETE ON webhook_stops, disabled_links TO linkforge_system;
GRANT SELECT, UPDATE ON webhook_readers TO linkforge_system;
GRANT EXECUTE ON FUNCTION keep_month, forget_months TO linkforge_system;
-- For dumps. Identity columns need no grant of their sequence for anything else.
GRANT SELECT ON instance, migrations, verified_hosts TO linkforge_system;
GRANT SELECT ON SEQUENCE audit_events_seq, changes_id_seq, click_batches_id_seq, link_text_queue_number_seq
    TO linkforge_system;

-- Row-level security, the second line of defence: all tables with rows of workspaces. The setting linkforge.workspace
-- has the workspace of linkforge_tenant, and a list of workspaces for linkforge_creator, which shows linkforge_tenant
-- nothing. The subquery splits the list once for each statement. array_position cannot be a condition of an index: with
-- = ANY, the planner would read all rows of the workspaces instead of looking up a key.
DO $$
DECLARE
    name TEXT;
    col  TEXT;
BEGIN
    FOR name, col IN SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = current_schema()
            AND (column_name = 'workspace_id' OR (table_name, column_name) = ('workspaces', 'id'))
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant
            USING (%I = current_setting(''linkforge.workspace'', true))', name, col);
        IF has_any_column_privilege('linkforge_creator', name, 'SELECT, INSERT') THEN
            EXECUTE format('CREATE POLICY of_workspaces ON %I TO linkforge_creator USING (array_position((SELECT
                string_to_array(current_setting(''linkforge.workspace'', true), '','')), %I) IS NOT NULL)', name, col);
        END IF;
        IF has_any_column_privilege('linkforge_resolver', name, 'SELECT') THEN
            EXECUTE format('CREATE POLICY resolved ON %I TO linkforge_resolver USING (true)', name);
        END IF;
    END LOOP;
END $$;

-- For verified_hosts.
CREATE POLICY verified ON domains FOR SELECT TO CURRENT_USER USING (verified_at IS NOT NULL);

-- Users read their own memberships, and the workspaces of which they are members. The plan of a function is cached; a
-- subquery in the policy would be planned with each statement. The comparison, which another policy has too, comes
-- first: most statements that read a workspace run in its scope, and the function reads members.
CREATE FUNCTION is_own_workspace(workspace TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM members WHERE workspace_id = workspace
        AND account_id = current_setting('linkforge.account', true));
END $$;
CREATE POLICY own ON members FOR SELECT TO linkforge_tenant
    USING (account_id = current_setting('linkforge.account', true));
CREATE POLICY own ON workspaces FOR SELECT TO linkforge_tenant
    USING (id = current_setting('linkforge.workspace', true) OR is_own_workspace(id));
