-- The role linkforge_creator also writes the rows of metadata, routings and maxima of the links that it creates, and reads
-- the changes that are due of links that exist.
GRANT INSERT ON link_metadata, link_urls TO linkforge_creator;
GRANT SELECT, INSERT, UPDATE (max_clicks, workspace_id, exhausted_at) ON grants TO linkforge_creator;
GRANT SELECT ON scheduled_changes TO linkforge_creator;

CREATE POLICY of_workspaces ON link_metadata TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON link_urls TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON grants TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
CREATE POLICY of_workspaces ON scheduled_changes TO linkforge_creator
    USING (array_position((SELECT string_to_array(current_setting('linkforge.workspace', true), ',')), workspace_id) IS NOT NULL);
