-- Clicks and rollups with all dimensions. Unknown values of a click are null.
ALTER TABLE clicks RENAME TO clicks_before;
ALTER TABLE click_buckets RENAME TO click_buckets_before;
DROP INDEX clicks_by_link;

CREATE TABLE clicks (
    id           INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    link_id      TEXT NOT NULL,
    clicked_at   TEXT NOT NULL,
    latency_ms   REAL NOT NULL,
    visit        INTEGER NOT NULL,  -- the first of a visitor of the link on that day (UTC)
    bot          INTEGER NOT NULL,
    status       INTEGER NOT NULL,  -- of the redirect
    referrer     TEXT,  -- a host
    country      TEXT,  -- ISO 3166-1 alpha-2
    device       TEXT,
    browser      TEXT,
    os           TEXT,
    language     TEXT,  -- ISO 639
    utm_source   TEXT,
    utm_medium   TEXT,
    utm_campaign TEXT,
    utm_term     TEXT,
    utm_content  TEXT,
    PRIMARY KEY (workspace_id, clicked_at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at, id);

-- Per link, and per workspace over all its links, and quarter of an hour (UTC); the latency is a running mean and sum of
-- squared deviations.
CREATE TABLE click_buckets (
    subject_id   TEXT NOT NULL,  -- a link, or a workspace
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    visits       INTEGER NOT NULL,
    bots         INTEGER NOT NULL,
    latency_mean REAL NOT NULL,  -- milliseconds
    latency_m2   REAL NOT NULL,  -- milliseconds squared
    counts       BLOB NOT NULL,  -- by dimension and value: see internal/click/counts.go
    PRIMARY KEY (subject_id, starts_at)
) STRICT, WITHOUT ROWID;

-- The same for whole days (UTC) that are over: what their buckets add up to.
CREATE TABLE click_days (
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
CREATE INDEX click_days_of_workspace ON click_days (workspace_id, starts_at);

ALTER TABLE click_totals RENAME link_id TO subject_id;
ALTER TABLE click_totals ADD bots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE click_totals ADD last_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- the latest click
ALTER TABLE click_totals ADD before_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- what last_at was before it was last written
ALTER TABLE click_totals ADD sealed_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- the days before are in click_days

-- Who has followed which link on a day (UTC), for as long as that is needed to count each of them once.
CREATE TABLE visitors (
    day     INTEGER NOT NULL,  -- since 1970
    visitor INTEGER NOT NULL,  -- a hash under the day's key
    PRIMARY KEY (day, visitor)
) STRICT, WITHOUT ROWID;
CREATE TABLE visitor_keys (
    day INTEGER NOT NULL PRIMARY KEY,
    key BLOB NOT NULL
) STRICT;

-- Clicks that were written together, in the order of delivery to subscribers.
CREATE TABLE click_batches (
    id         INTEGER NOT NULL PRIMARY KEY,  -- the last row stays, so that no number comes again
    first_id   INTEGER NOT NULL,
    last_id    INTEGER NOT NULL,
    first_at   TEXT NOT NULL,
    last_at    TEXT NOT NULL,
    written_at TEXT NOT NULL
) STRICT;
CREATE INDEX click_batches_by_click ON click_batches (last_id);

-- Requests that matched no active link, by code.
CREATE TABLE orphans (
    workspace_id TEXT NOT NULL,
    day          INTEGER NOT NULL,  -- since 1970
    code         TEXT NOT NULL,  -- empty: all others
    status       INTEGER NOT NULL,
    requests     INTEGER NOT NULL,
    last_at      TEXT NOT NULL,
    PRIMARY KEY (workspace_id, day, code, status)
) STRICT, WITHOUT ROWID;

ALTER TABLE links ADD stats_public INTEGER NOT NULL DEFAULT FALSE;

INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot, status)
    SELECT row_number() OVER (ORDER BY id), workspace_id, link_id, clicked_at, latency_ms, 0, 0, 302 FROM clicks_before;
INSERT INTO counters (name, next) SELECT 'click', count(*) + 1 FROM clicks;
INSERT INTO click_buckets SELECT link_id, starts_at, workspace_id, clicks, 0, 0, latency_mean, latency_m2, x'' FROM click_buckets_before;
DROP TABLE clicks_before;
DROP TABLE click_buckets_before;

-- The rollups of a workspace are those of its links. Links without an owner have none.
CREATE TABLE quarters AS
    SELECT workspace_id, starts_at, sum(clicks) AS clicks, sum(latency_mean * clicks) / sum(clicks) AS mean,
        sum(latency_m2 + clicks * latency_mean * latency_mean) AS squares
    FROM click_buckets WHERE workspace_id <> 'ws_00000000000000000000000000' GROUP BY workspace_id, starts_at;
INSERT INTO click_buckets SELECT workspace_id, starts_at, workspace_id, clicks, 0, 0, mean, max(0, squares - clicks * mean * mean), x'' FROM quarters;
INSERT INTO click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2)
    SELECT workspace_id, workspace_id, sum(clicks), sum(mean * clicks) / sum(clicks),
        max(0, sum(squares) - sum(mean * clicks) * sum(mean * clicks) / sum(clicks))
    FROM quarters GROUP BY workspace_id;
DROP TABLE quarters;
UPDATE click_totals SET last_at = coalesce((SELECT max(starts_at) FROM click_buckets b WHERE b.subject_id = click_totals.subject_id), last_at);
