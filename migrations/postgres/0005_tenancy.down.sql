-- The roles stay: they belong to the whole server, and to other databases on it.
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['workspaces', 'members', 'links', 'link_tags', 'link_usage', 'idempotency_keys', 'clicks', 'click_buckets',
        'click_totals'] LOOP
        EXECUTE format('DROP POLICY IF EXISTS own ON %I', name);
        EXECUTE format('DROP POLICY IF EXISTS resolved ON %I', name);
        EXECUTE format('DROP POLICY of_workspace ON %I', name);
        EXECUTE format('DROP POLICY all_rows ON %I', name);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;
DROP FUNCTION is_own_workspace(TEXT);
DO $$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM linkforge_tenant, linkforge_resolver, linkforge_system', current_schema());
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM linkforge_tenant, linkforge_resolver, linkforge_system', current_schema());
END $$;
DROP TABLE audit_events;
DROP VIEW verified_hosts;
DROP TABLE domains;
DROP TABLE api_keys;
DROP TABLE invitations;
DROP TABLE slugs;
DROP INDEX workspaces_to_purge;
ALTER TABLE workspaces DROP purged_at, DROP deleted_at, DROP primary_host;
DROP TABLE mailed_tokens;
ALTER TABLE accounts DROP deleted_at, DROP email_verified_at;
