DROP POLICY of_workspaces ON link_metadata;
DROP POLICY of_workspaces ON link_urls;
DROP POLICY of_workspaces ON grants;
DROP POLICY of_workspaces ON scheduled_changes;

REVOKE ALL ON link_metadata, link_urls, grants, scheduled_changes FROM linkforge_creator;
REVOKE ALL (max_clicks, workspace_id, exhausted_at) ON grants FROM linkforge_creator;
