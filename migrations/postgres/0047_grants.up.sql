-- One table counts the redirects that links and targets with a maximum have granted, so a redirect updates one small
-- row, and no row of links. The subject is a link or a target. link_id deletes the rows of targets with their link, and
-- finds those of a link. A row stays when its subject loses the maximum, so that the count is known when it gets
-- one again.
ALTER TABLE target_grants RENAME TO grants;
ALTER TABLE grants RENAME target_id TO subject_id;
ALTER TABLE grants RENAME CONSTRAINT target_grants_pkey TO grants_pkey;
ALTER TABLE grants RENAME CONSTRAINT target_grants_link_id_fkey TO grants_link_id_fkey;
ALTER INDEX target_grants_by_link RENAME TO grants_by_link;
ALTER TABLE grants ADD exhausted_at TIMESTAMPTZ;  -- when the recorded clicks of a link had reached max_clicks

LOCK TABLE links IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL ROLE linkforge_system;  -- the owner is subject to row-level security
INSERT INTO grants (subject_id, link_id, workspace_id, max_clicks, granted, exhausted_at)
    SELECT id, id, workspace_id, max_clicks, granted, exhausted_at FROM links WHERE max_clicks IS NOT NULL;
RESET ROLE;

-- Only links with a transition to record are in the index.
CREATE INDEX grants_to_exhaust ON grants (subject_id) WHERE granted >= max_clicks AND exhausted_at IS NULL AND subject_id = link_id;
DROP INDEX links_to_exhaust;
ALTER TABLE links DROP granted, DROP exhausted_at;

GRANT UPDATE (exhausted_at) ON grants TO linkforge_tenant;
REVOKE SELECT ON grants FROM linkforge_resolver;
GRANT SELECT (subject_id, granted, max_clicks) ON grants TO linkforge_resolver;

-- What a link has granted, for lists of links. The cost is that of the many links without a maximum.
CREATE FUNCTION granted_of(subject TEXT) RETURNS BIGINT LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS $$
BEGIN
    RETURN (SELECT granted FROM grants WHERE subject_id = subject);
END $$;
