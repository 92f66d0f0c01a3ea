-- Clicks that are not in click_days yet are counted from their rows: nothing writes click_buckets any more. A later version
-- drops it, and click_totals.before_at: nodes of the earlier version need both during an upgrade. They ignore columns whose names
-- begin with a low line.
ALTER TABLE click_totals ADD _sealed_clicks BIGINT NOT NULL DEFAULT 0;  -- about how many clicks are in click_days

-- Redirects count the clicks of a link in a month: they see whose and when, and nothing else of a click.
GRANT SELECT (link_id, clicked_at) ON clicks TO linkforge_resolver;
GRANT SELECT (subject_id, starts_at, clicks) ON click_days TO linkforge_resolver;
CREATE POLICY resolved ON clicks TO linkforge_resolver USING (true);
CREATE POLICY resolved ON click_days TO linkforge_resolver USING (true);
