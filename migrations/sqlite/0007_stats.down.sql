ALTER TABLE clicks RENAME TO clicks_after;
ALTER TABLE click_buckets RENAME TO click_buckets_after;
DROP INDEX clicks_by_link;
CREATE TABLE clicks (
    id           TEXT NOT NULL PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    link_id      TEXT NOT NULL,
    clicked_at   TEXT NOT NULL,
    latency_ms   REAL NOT NULL
) STRICT;
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at);
CREATE TABLE click_buckets (
    link_id      TEXT NOT NULL,
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    latency_mean REAL NOT NULL,
    latency_m2   REAL NOT NULL,
    PRIMARY KEY (link_id, starts_at)
) STRICT;
INSERT INTO clicks SELECT 'clk_' || printf('%026d', id), workspace_id, link_id, clicked_at, latency_ms FROM clicks_after;
INSERT INTO click_buckets SELECT subject_id, starts_at, workspace_id, clicks, latency_mean, latency_m2 FROM click_buckets_after
    WHERE subject_id <> workspace_id;
DELETE FROM click_totals WHERE subject_id = workspace_id;
DELETE FROM counters WHERE name = 'click';
DROP TABLE clicks_after;
DROP TABLE click_buckets_after;
DROP TABLE click_days;
DROP TABLE visitors;
DROP TABLE visitor_keys;
DROP TABLE click_batches;
DROP TABLE orphans;
ALTER TABLE click_totals DROP bots;
ALTER TABLE click_totals DROP last_at;
ALTER TABLE click_totals DROP before_at;
ALTER TABLE click_totals DROP sealed_at;
ALTER TABLE click_totals RENAME subject_id TO link_id;
ALTER TABLE links DROP stats_public;
