-- The earlier version reads days that are over from click_days, and the others from click_buckets, without counts by
-- dimension: "linkforge stats rebuild" adds those.
CREATE TABLE click_buckets (
    subject_id   TEXT NOT NULL,
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    visits       INTEGER NOT NULL,
    bots         INTEGER NOT NULL,
    latency_mean REAL NOT NULL,
    latency_m2   REAL NOT NULL,
    counts       BLOB NOT NULL,
    PRIMARY KEY (subject_id, starts_at)
) STRICT, WITHOUT ROWID;
ALTER TABLE click_totals DROP sealed_clicks;
ALTER TABLE click_totals ADD before_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- what last_at was before it was last written

INSERT INTO click_buckets
    SELECT subject_id, strftime('%Y-%m-%d %H:%M:%S', CAST(strftime('%s', clicked_at) AS INTEGER) / 900 * 900, 'unixepoch') || '+00:00', workspace_id,
        count(*), sum(visit), sum(bot), avg(latency_ms), max(0, sum(latency_ms * latency_ms) - count(*) * avg(latency_ms) * avg(latency_ms)), x''
    FROM (SELECT link_id AS subject_id, * FROM clicks
        UNION ALL SELECT workspace_id AS subject_id, * FROM clicks WHERE workspace_id <> 'ws_00000000000000000000000000') AS counted
    GROUP BY 1, 2, 3;
DELETE FROM click_days WHERE starts_at >= (SELECT substr(t.sealed_at, 1, 10) || ' 00:00:00+00:00' FROM click_totals AS t WHERE t.subject_id = click_days.subject_id);
UPDATE click_totals SET sealed_at = substr(sealed_at, 1, 10) || ' 00:00:00+00:00', before_at = last_at;
