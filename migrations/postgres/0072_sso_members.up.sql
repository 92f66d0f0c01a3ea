-- Memberships that the groups of the provider of single sign-on give. Owners are made by members only.
ALTER TABLE members ADD COLUMN source TEXT COLLATE "C" NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'sso'))
    CHECK (source = 'manual' OR role <> 'OWNER');

-- The workspaces of the slugs in LINKFORGE_SSO_MEMBERSHIPS, since the start that first named them.
CREATE TABLE sso_workspaces (
    slug         TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON sso_workspaces TO linkforge_tenant, linkforge_system;
ALTER TABLE sso_workspaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE sso_workspaces FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON sso_workspaces TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON sso_workspaces TO linkforge_system USING (true);
