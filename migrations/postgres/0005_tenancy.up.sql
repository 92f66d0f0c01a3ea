ALTER TABLE accounts
    ADD email_verified_at TIMESTAMPTZ,
    ADD deleted_at        TIMESTAMPTZ;  -- all personal data is deleted then; the id remains

-- Tokens sent by e-mail, to verify an address or to reset a password. Each is valid once.
CREATE TABLE mailed_tokens (
    hash       BYTEA PRIMARY KEY,  -- SHA-256
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    purpose    TEXT COLLATE "C" NOT NULL CHECK (purpose IN ('VERIFY_EMAIL', 'RESET_PASSWORD')),
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX mailed_tokens_by_account ON mailed_tokens (account_id, purpose);
CREATE INDEX mailed_tokens_by_age ON mailed_tokens (expires_at);

ALTER TABLE workspaces
    ADD primary_host TEXT COLLATE "C",  -- the verified domain of displayed short URLs
    ADD deleted_at   TIMESTAMPTZ,
    ADD purged_at    TIMESTAMPTZ;  -- when all data but the slugs was deleted
CREATE INDEX workspaces_to_purge ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- All current and former slugs of workspaces. A slug is never reused by another workspace.
CREATE TABLE slugs (
    slug         TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    created_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX slugs_by_workspace ON slugs (workspace_id);
INSERT INTO slugs (slug, workspace_id, created_at) SELECT slug, id, created_at FROM workspaces;

CREATE TABLE invitations (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    email        TEXT COLLATE "C" NOT NULL,  -- in lower case
    role         TEXT COLLATE "C" NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'EDITOR', 'VIEWER')),
    token_hash   BYTEA NOT NULL UNIQUE,  -- SHA-256
    invited_by   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    created_at   TIMESTAMPTZ NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL,
    accepted_at  TIMESTAMPTZ,
    accepted_by  TEXT COLLATE "C" REFERENCES accounts (id)
);
-- At most one pending invitation per address and workspace.
CREATE UNIQUE INDEX invitations_pending ON invitations (workspace_id, email) WHERE accepted_at IS NULL;
CREATE INDEX invitations_in_workspace ON invitations (workspace_id, id);
CREATE INDEX invitations_by_email ON invitations (email);
CREATE INDEX invitations_by_age ON invitations (expires_at);

CREATE TABLE api_keys (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,  -- the first characters of the secret, which identify the key to users
    hash         BYTEA NOT NULL UNIQUE,  -- SHA-256 of the secret
    scopes       TEXT NOT NULL,  -- separated by spaces
    created_by   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    created_at   TIMESTAMPTZ NOT NULL,
    expires_at   TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ,
    revoked_at   TIMESTAMPTZ
);
CREATE INDEX api_keys_in_workspace ON api_keys (workspace_id, id);

CREATE TABLE domains (
    id            TEXT COLLATE "C" PRIMARY KEY,
    workspace_id  TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    host          TEXT COLLATE "C" NOT NULL,  -- in canonical form
    token         TEXT NOT NULL,  -- the required value of the TXT record
    created_at    TIMESTAMPTZ NOT NULL,
    verified_at   TIMESTAMPTZ,
    checked_at    TIMESTAMPTZ,  -- the last lookup of the TXT record
    failed_at     TIMESTAMPTZ,  -- since when the TXT record of a verified domain has been missing
    UNIQUE (workspace_id, host)
);
-- Any workspace may add a host; at most one workspace can have it verified.
CREATE UNIQUE INDEX domains_verified ON domains (host) WHERE verified_at IS NOT NULL;
CREATE INDEX domains_in_workspace ON domains (workspace_id, id);

-- The audit log: actor, action, object and time of each change.
CREATE TABLE audit_events (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    actor_id     TEXT COLLATE "C" NOT NULL,  -- the id of an account or API key; empty for the server itself
    action       TEXT COLLATE "C" NOT NULL,
    target_id    TEXT COLLATE "C" NOT NULL,
    details      TEXT NOT NULL,  -- JSON
    created_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX audit_events_in_workspace ON audit_events (workspace_id, id);
CREATE INDEX audit_events_by_target ON audit_events (target_id, id);
CREATE INDEX audit_events_by_actor ON audit_events (actor_id, id);

-- Row-level security (second line of defence). Statements run as one of three roles, which own no
-- tables and do not bypass policies (internal/db/scope.go): linkforge_tenant reads and writes one
-- workspace, linkforge_resolver finds the workspace of an object, linkforge_system runs jobs. Roles
-- are global to the database server: they are created once and not dropped.
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['linkforge_tenant', 'linkforge_resolver', 'linkforge_system'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- created concurrently by the migration of another database
        END;
        -- Since PostgreSQL 16 the creator of a role may grant it, but is not a member with SET.
        IF NOT pg_has_role(session_user, name, CASE WHEN current_setting('server_version_num')::INTEGER >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
            EXECUTE format('GRANT %I TO %I', name, session_user);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, sessions, refresh_tokens, mailed_tokens, workspaces, slugs, members, invitations, api_keys,
    domains, audit_events, links, link_tags, link_usage, idempotency_keys TO linkforge_tenant;
GRANT SELECT ON clicks, click_buckets, click_totals, blocked_hosts TO linkforge_tenant;
GRANT SELECT, INSERT ON instance, reports TO linkforge_tenant;
GRANT SELECT, INSERT, UPDATE ON counters TO linkforge_tenant;

GRANT SELECT ON workspaces, slugs, domains, api_keys, invitations, links, click_buckets TO linkforge_resolver;
GRANT UPDATE (granted) ON links TO linkforge_resolver;
GRANT UPDATE (last_used_at) ON api_keys TO linkforge_resolver;

GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, sessions, refresh_tokens, mailed_tokens, workspaces, slugs, members, invitations, api_keys,
    domains, audit_events, links, link_tags, link_usage, idempotency_keys, clicks, click_buckets, click_totals, click_logs,
    blocked_hosts, reports, leases TO linkforge_system;
GRANT SELECT ON instance, counters, migrations TO linkforge_system;  -- for backups

DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['workspaces', 'slugs', 'members', 'invitations', 'api_keys', 'domains', 'audit_events', 'links', 'link_tags',
        'link_usage', 'idempotency_keys', 'clicks', 'click_buckets', 'click_totals'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (%I = current_setting(''linkforge.workspace'', true))',
            name, CASE name WHEN 'workspaces' THEN 'id' ELSE 'workspace_id' END);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['workspaces', 'slugs', 'domains', 'api_keys', 'invitations', 'links', 'click_buckets'] LOOP
        EXECUTE format('CREATE POLICY resolved ON %I TO linkforge_resolver USING (true)', name);
    END LOOP;
END $$;

-- The view exposes verified hosts, which are public in DNS, but not their workspaces. It runs with
-- the rights of its owner.
CREATE POLICY verified ON domains FOR SELECT TO CURRENT_USER USING (verified_at IS NOT NULL);
CREATE VIEW verified_hosts AS SELECT host FROM domains WHERE verified_at IS NOT NULL;
GRANT SELECT ON verified_hosts TO linkforge_tenant, linkforge_resolver, linkforge_system;

-- Users read their own memberships, and the workspaces of which they are members.
CREATE POLICY own ON members FOR SELECT TO linkforge_tenant USING (account_id = current_setting('linkforge.account', true));
-- A function, because its plan is cached. A subquery in the policy would be planned with each
-- statement.
CREATE FUNCTION is_own_workspace(workspace TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM members WHERE workspace_id = workspace AND account_id = current_setting('linkforge.account', true));
END $$;
CREATE POLICY own ON workspaces FOR SELECT TO linkforge_tenant USING (is_own_workspace(id));
