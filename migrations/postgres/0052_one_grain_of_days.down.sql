DROP POLICY resolved ON clicks;
DROP POLICY resolved ON click_days;
REVOKE SELECT (link_id, clicked_at) ON clicks FROM linkforge_resolver;
REVOKE SELECT (subject_id, starts_at, clicks) ON click_days FROM linkforge_resolver;
ALTER TABLE click_totals DROP _sealed_clicks;

-- The earlier version counts days that are not over from click_buckets. "linkforge stats rebuild" adds their dimensions.
ALTER TABLE clicks NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_totals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_buckets NO FORCE ROW LEVEL SECURITY;
UPDATE click_totals SET sealed_at = date_trunc('day', sealed_at, 'UTC'), before_at = last_at;
DELETE FROM click_days AS d USING click_totals AS t WHERE t.subject_id = d.subject_id AND d.starts_at >= t.sealed_at;
INSERT INTO click_buckets SELECT t.subject_id, date_bin('15 minutes', c.clicked_at, TIMESTAMPTZ '2000-01-01 00:00:00+00:00'), t.workspace_id,
        count(*), count(*) FILTER (WHERE c.visit), count(*) FILTER (WHERE c.bot), avg(c.latency_ms), coalesce(var_pop(c.latency_ms), 0) * count(*), ''
    FROM click_totals AS t JOIN clicks AS c ON c.clicked_at >= (SELECT min(sealed_at) FROM click_totals WHERE last_at >= sealed_at)
        AND c.clicked_at >= t.sealed_at AND t.subject_id IN (c.link_id, c.workspace_id)
    GROUP BY 1, 2, 3
    ON CONFLICT (subject_id, starts_at) DO UPDATE SET workspace_id = excluded.workspace_id, clicks = excluded.clicks, visits = excluded.visits, bots = excluded.bots,
        latency_mean = excluded.latency_mean, latency_m2 = excluded.latency_m2;
ALTER TABLE clicks FORCE ROW LEVEL SECURITY;
ALTER TABLE click_totals FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days FORCE ROW LEVEL SECURITY;
ALTER TABLE click_buckets FORCE ROW LEVEL SECURITY;
