DROP TABLE sso_workspaces;
ALTER TABLE members DROP COLUMN source;
