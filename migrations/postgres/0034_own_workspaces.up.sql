-- The comparison, which another policy has too, comes first: most statements that read a workspace run in its scope, and
-- the function reads members.
ALTER POLICY own ON workspaces USING (id = current_setting('linkforge.workspace', true) OR is_own_workspace(id));
