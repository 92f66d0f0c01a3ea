-- The bulk call that a version and an event belong to, which revertOperation undoes; null: none. The ids of
-- its events are greater than its own, so no index is needed to find them.
ALTER TABLE links ADD version_operation TEXT COLLATE "C";
ALTER TABLE link_versions ADD operation_id TEXT COLLATE "C";
ALTER TABLE audit_events
    ADD operation_id TEXT COLLATE "C",
    ADD effective_at TIMESTAMPTZ;  -- when the change took effect; null: created_at

-- The transitions that have been recorded. Those of before this migration are marked without an event.
ALTER TABLE links
    ADD started_at   TIMESTAMPTZ,  -- starts_at, once it has come
    ADD expired_at   TIMESTAMPTZ,  -- expires_at, once it has come
    ADD exhausted_at TIMESTAMPTZ;  -- when the recorded clicks had reached max_clicks
ALTER TABLE links NO FORCE ROW LEVEL SECURITY;
UPDATE links SET
    started_at = CASE WHEN starts_at <= now() THEN starts_at END,
    expired_at = CASE WHEN expires_at <= now() THEN expires_at END,
    ended_at = CASE WHEN expires_at <= now() THEN coalesce(ended_at, expires_at) ELSE ended_at END,
    exhausted_at = CASE WHEN granted >= max_clicks THEN now() END
WHERE starts_at <= now() OR expires_at <= now() OR granted >= max_clicks;
ALTER TABLE links FORCE ROW LEVEL SECURITY;

-- Only links with a transition to record are in these indexes.
DROP INDEX links_to_end;
CREATE INDEX links_to_start ON links (starts_at) WHERE starts_at IS NOT NULL AND started_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_expire ON links (expires_at) WHERE expires_at IS NOT NULL AND expired_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_exhaust ON links (id) WHERE granted >= max_clicks AND exhausted_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
