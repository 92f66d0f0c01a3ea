-- The state of a URL that the event log has; null before the first response. URLs that fail already are
-- reported without an event.
ALTER TABLE links ADD reported_state TEXT COLLATE "C";
ALTER TABLE link_urls ADD reported_state TEXT COLLATE "C";
ALTER TABLE links NO FORCE ROW LEVEL SECURITY;
ALTER TABLE link_urls NO FORCE ROW LEVEL SECURITY;
UPDATE links SET reported_state = CASE WHEN destination_status IS NULL THEN 'UNREACHABLE' ELSE 'BROKEN' END
WHERE check_failures >= 2 AND coalesce(destination_status, 0) NOT IN (401, 403, 405, 429);
UPDATE link_urls SET reported_state = CASE WHEN destination_status IS NULL THEN 'UNREACHABLE' ELSE 'BROKEN' END
WHERE check_failures >= 2 AND coalesce(destination_status, 0) NOT IN (401, 403, 405, 429);
ALTER TABLE links FORCE ROW LEVEL SECURITY;
ALTER TABLE link_urls FORCE ROW LEVEL SECURITY;

ALTER TABLE audit_events ADD url TEXT;  -- the destination that the event is about
