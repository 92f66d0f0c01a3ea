-- URLs of routings are checked as destinations are. Those that exist are due; one with a placeholder
-- has no single destination.
ALTER TABLE link_urls
    ADD destination_status INTEGER,  -- as in links
    ADD last_checked_at    TIMESTAMPTZ,
    ADD check_at           TIMESTAMPTZ,
    ADD check_failures     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE link_urls NO FORCE ROW LEVEL SECURITY;
UPDATE link_urls SET check_at = TIMESTAMPTZ 'epoch' WHERE field NOT IN ('pendingUrl', 'endedUrl') OR position('{' IN url) = 0;
ALTER TABLE link_urls FORCE ROW LEVEL SECURITY;
CREATE INDEX link_urls_to_check ON link_urls (check_at) WHERE check_at IS NOT NULL;
