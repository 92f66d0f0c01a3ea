-- URLs of routings are checked as destinations are. Those that exist are due; one with a placeholder
-- has no single destination.
ALTER TABLE link_urls ADD destination_status INTEGER;  -- as in links
ALTER TABLE link_urls ADD last_checked_at TEXT;
ALTER TABLE link_urls ADD check_at TEXT;
ALTER TABLE link_urls ADD check_failures INTEGER NOT NULL DEFAULT 0;
UPDATE link_urls SET check_at = (SELECT created_at FROM links WHERE id = link_id)
    WHERE field NOT IN ('pendingUrl', 'endedUrl') OR instr(url, '{') = 0;
CREATE INDEX link_urls_to_check ON link_urls (check_at) WHERE check_at IS NOT NULL;
