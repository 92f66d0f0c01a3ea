-- The bulk call that a version and an event belong to, which revertOperation undoes; null: none. The ids of
-- its events are greater than its own, so no index is needed to find them.
ALTER TABLE links ADD version_operation TEXT;
ALTER TABLE link_versions ADD operation_id TEXT;
ALTER TABLE audit_events ADD operation_id TEXT;
ALTER TABLE audit_events ADD effective_at TEXT;  -- when the change took effect; null: created_at

-- The transitions that have been recorded. Those of before this migration are marked without an event.
ALTER TABLE links ADD started_at TEXT;    -- starts_at, once it has come
ALTER TABLE links ADD expired_at TEXT;    -- expires_at, once it has come
ALTER TABLE links ADD exhausted_at TEXT;  -- when the recorded clicks had reached max_clicks
UPDATE links SET
    started_at = CASE WHEN starts_at <= clock.now THEN starts_at END,
    expired_at = CASE WHEN expires_at <= clock.now THEN expires_at END,
    ended_at = CASE WHEN expires_at <= clock.now THEN coalesce(ended_at, expires_at) ELSE ended_at END,
    exhausted_at = CASE WHEN granted >= max_clicks THEN clock.now END
FROM (SELECT strftime('%Y-%m-%d %H:%M:%f+00:00', 'now') AS now) AS clock
WHERE starts_at <= clock.now OR expires_at <= clock.now OR granted >= max_clicks;

-- Only links with a transition to record are in these indexes.
DROP INDEX links_to_end;
CREATE INDEX links_to_start ON links (starts_at) WHERE starts_at IS NOT NULL AND started_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_expire ON links (expires_at) WHERE expires_at IS NOT NULL AND expired_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;
CREATE INDEX links_to_exhaust ON links (id) WHERE granted >= max_clicks AND exhausted_at IS NULL AND deleted_at IS NULL AND disabled_at IS NULL;

-- The number of the last event; the trigger used numbers again once the newest events were deleted. Package audit
-- numbers events as it inserts them, which costs less.
CREATE TABLE event_numbers (last INTEGER NOT NULL) STRICT;
INSERT INTO event_numbers SELECT coalesce(max(seq), 0) FROM audit_events WHERE seq IS NOT NULL;
DROP TRIGGER audit_event_ordered;
