-- Memberships that the groups of the provider of single sign-on give. Owners are made by members only.
ALTER TABLE members ADD COLUMN source TEXT NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'sso'))
    CHECK (source = 'manual' OR role <> 'OWNER');

-- The workspaces of the slugs in LINKFORGE_SSO_MEMBERSHIPS, since the start that first named them.
CREATE TABLE sso_workspaces (
    slug         TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id)
) STRICT;
