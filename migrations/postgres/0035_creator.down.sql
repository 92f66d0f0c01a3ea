DROP POLICY of_workspaces ON workspaces;
DROP POLICY of_workspaces ON members;
DROP POLICY of_workspaces ON links;
DROP POLICY of_workspaces ON link_tags;
DROP POLICY of_workspaces ON audit_events;
DROP POLICY of_workspaces ON link_usage;
DROP POLICY of_workspaces ON link_text_queue;

REVOKE ALL ON workspaces, members, verified_hosts, blocked_hosts, links, link_tags, audit_events, link_usage, link_text_queue FROM linkforge_creator;
REVOKE ALL (links) ON link_usage FROM linkforge_creator;
REVOKE ALL ON SEQUENCE audit_events_seq FROM linkforge_creator;
DO $$
BEGIN
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM linkforge_creator', current_schema());
END $$;
