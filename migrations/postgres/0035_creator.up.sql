-- The role linkforge_creator creates links in several workspaces with one statement. It sees what a creation reads in
-- these workspaces, inserts what it writes, and consumes quotas. The setting linkforge.workspace has a list of workspaces
-- for this role. The policies of linkforge_tenant compare the setting with one workspace, so a list shows that role nothing.
DO $$
DECLARE
    name TEXT := 'linkforge_creator';
BEGIN
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;  -- created concurrently by the migration of another database
    END;
    IF NOT pg_has_role(session_user, name, CASE WHEN current_setting('server_version_num')::INTEGER >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
        EXECUTE format('GRANT %I TO %I', name, session_user);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
END $$;

GRANT SELECT ON workspaces, members, verified_hosts, blocked_hosts TO linkforge_creator;
GRANT SELECT, INSERT ON links, link_tags, audit_events TO linkforge_creator;
GRANT SELECT, INSERT, UPDATE (links) ON link_usage TO linkforge_creator;
GRANT INSERT ON link_text_queue TO linkforge_creator;
GRANT USAGE ON SEQUENCE audit_events_seq TO linkforge_creator;

-- The subqueries split the list once for each statement. array_position cannot be a condition of an index: with = ANY,
-- the planner would read all rows of the workspaces instead of looking up a key.
CREATE POLICY of_workspaces ON workspaces TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), id) IS NOT NULL);
CREATE POLICY of_workspaces ON members TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON links TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON link_tags TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON audit_events TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON link_usage TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON link_text_queue TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
