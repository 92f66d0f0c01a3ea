-- One table counts the redirects that links and targets with a maximum have granted, so a redirect updates one small
-- row, and no row of links. The subject is a link or a target. link_id deletes the rows of targets with their link, and
-- finds those of a link. A row stays when its subject loses the maximum, so that the count is known when it gets
-- one again.
ALTER TABLE target_grants RENAME TO grants;
ALTER TABLE grants RENAME COLUMN target_id TO subject_id;
ALTER TABLE grants ADD exhausted_at TEXT;  -- when the recorded clicks of a link had reached max_clicks
INSERT INTO grants (subject_id, link_id, workspace_id, max_clicks, granted, exhausted_at)
    SELECT id, id, workspace_id, max_clicks, granted, exhausted_at FROM links WHERE max_clicks IS NOT NULL;

DROP INDEX target_grants_by_link;
CREATE INDEX grants_by_link ON grants (link_id);
-- Only links with a transition to record are in the index.
CREATE INDEX grants_to_exhaust ON grants (subject_id) WHERE granted >= max_clicks AND exhausted_at IS NULL AND subject_id = link_id;
DROP INDEX links_to_exhaust;
ALTER TABLE links DROP granted;
ALTER TABLE links DROP exhausted_at;
