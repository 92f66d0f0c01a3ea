ALTER POLICY own ON workspaces USING (is_own_workspace(id));
