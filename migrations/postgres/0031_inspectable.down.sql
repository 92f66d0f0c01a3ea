ALTER TABLE workspaces DROP inspectable;
