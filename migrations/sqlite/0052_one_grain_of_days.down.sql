ALTER TABLE click_totals DROP _sealed_clicks;

-- The earlier version counts days that are not over from click_buckets. "linkforge stats rebuild" adds their dimensions.
UPDATE click_totals SET sealed_at = substr(sealed_at, 1, 10) || ' 00:00:00+00:00', before_at = last_at;
DELETE FROM click_days WHERE starts_at >= (SELECT t.sealed_at FROM click_totals AS t WHERE t.subject_id = click_days.subject_id);
INSERT INTO click_buckets
    SELECT t.subject_id, strftime('%Y-%m-%d %H:%M:%S', CAST(strftime('%s', c.clicked_at) AS INTEGER) / 900 * 900, 'unixepoch') || '+00:00',
        t.workspace_id, count(*), sum(c.visit), sum(c.bot), avg(c.latency_ms),
        max(0, sum(c.latency_ms * c.latency_ms) - count(*) * avg(c.latency_ms) * avg(c.latency_ms)), x''
    FROM click_totals AS t JOIN clicks AS c ON c.clicked_at >= (SELECT min(sealed_at) FROM click_totals WHERE last_at >= sealed_at)
        AND c.clicked_at >= t.sealed_at AND t.subject_id IN (c.link_id, c.workspace_id)
    GROUP BY 1, 2, 3
    ON CONFLICT (subject_id, starts_at) DO UPDATE SET workspace_id = excluded.workspace_id, clicks = excluded.clicks, visits = excluded.visits, bots = excluded.bots,
        latency_mean = excluded.latency_mean, latency_m2 = excluded.latency_m2;
