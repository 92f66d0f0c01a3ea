-- Clicks and their sums by month: a month that is no longer kept goes by dropping its partitions.
ALTER TABLE clicks NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_buckets NO FORCE ROW LEVEL SECURITY;
ALTER TABLE clicks RENAME TO clicks_before;
ALTER TABLE click_buckets RENAME TO click_buckets_before;
ALTER TABLE clicks_before RENAME CONSTRAINT clicks_pkey TO clicks_before_pkey;
ALTER TABLE click_buckets_before RENAME CONSTRAINT click_buckets_pkey TO click_buckets_before_pkey;
DROP INDEX clicks_by_link;

-- Unknown values of a click are null.
CREATE TABLE clicks (
    id           BIGINT NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    link_id      TEXT COLLATE "C" NOT NULL,
    clicked_at   TIMESTAMPTZ NOT NULL,
    latency_ms   DOUBLE PRECISION NOT NULL,
    visit        BOOLEAN NOT NULL,  -- the first of a visitor of the link on that day (UTC)
    bot          BOOLEAN NOT NULL,
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
) PARTITION BY RANGE (clicked_at);
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at, id);

-- Per link, and per workspace over all its links, and quarter of an hour (UTC); the latency is a running mean and sum of
-- squared deviations.
CREATE TABLE click_buckets (
    subject_id   TEXT COLLATE "C" NOT NULL,  -- a link, or a workspace
    starts_at    TIMESTAMPTZ NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    clicks       BIGINT NOT NULL,
    visits       BIGINT NOT NULL,
    bots         BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL,  -- milliseconds
    latency_m2   DOUBLE PRECISION NOT NULL,  -- milliseconds squared
    counts       BYTEA NOT NULL,  -- by dimension and value: see internal/click/counts.go
    PRIMARY KEY (subject_id, starts_at)
) PARTITION BY RANGE (starts_at);

-- The same for whole days (UTC) that are over: what their buckets add up to.
CREATE TABLE click_days (
    subject_id   TEXT COLLATE "C" NOT NULL,
    starts_at    TIMESTAMPTZ NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    clicks       BIGINT NOT NULL,
    visits       BIGINT NOT NULL,
    bots         BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL,
    latency_m2   DOUBLE PRECISION NOT NULL,
    counts       BYTEA NOT NULL,
    PRIMARY KEY (subject_id, starts_at)
);
CREATE INDEX click_days_of_workspace ON click_days (workspace_id, starts_at);

ALTER TABLE click_totals RENAME link_id TO subject_id;
ALTER TABLE click_totals
    ADD bots      BIGINT NOT NULL DEFAULT 0,
    ADD last_at   TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',  -- the latest click
    ADD before_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00',  -- what last_at was before it was last written
    ADD sealed_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- the days before are in click_days

-- Who has followed which link on a day (UTC), for as long as that is needed to count each of them once.
CREATE TABLE visitors (
    day     INTEGER NOT NULL,  -- since 1970
    visitor BIGINT NOT NULL,  -- a hash under the day's key
    PRIMARY KEY (day, visitor)
);
CREATE TABLE visitor_keys (
    day INTEGER NOT NULL PRIMARY KEY,
    key BYTEA NOT NULL
);

-- Clicks that were written together, in the order of delivery to subscribers.
CREATE TABLE click_batches (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid        BIGINT NOT NULL DEFAULT pg_current_xact_id()::TEXT::BIGINT,
    first_id   BIGINT NOT NULL,
    last_id    BIGINT NOT NULL,
    first_at   TIMESTAMPTZ NOT NULL,
    last_at    TIMESTAMPTZ NOT NULL,
    written_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX click_batches_by_xid ON click_batches (xid);
CREATE INDEX click_batches_by_click ON click_batches (last_id);

-- Requests that matched no active link, by code.
CREATE TABLE orphans (
    workspace_id TEXT COLLATE "C" NOT NULL,
    day          INTEGER NOT NULL,  -- since 1970
    code         TEXT COLLATE "C" NOT NULL,  -- empty: all others
    status       INTEGER NOT NULL,
    requests     BIGINT NOT NULL,
    last_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, day, code, status)
);

ALTER TABLE links ADD stats_public BOOLEAN NOT NULL DEFAULT FALSE;

-- Creates the partition of a month. The role that ingests clicks owns no tables, and may do only
-- this.
CREATE FUNCTION keep_month(month TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first TIMESTAMP := date_trunc('month', month AT TIME ZONE 'UTC');
    whole TEXT;
    part  TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    FOREACH whole IN ARRAY ARRAY['clicks', 'click_buckets'] LOOP
        part := whole || to_char(first, '_YYYY_MM');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, whole);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO linkforge_system', part);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', whole, part,
            first AT TIME ZONE 'UTC', (first + INTERVAL '1 month') AT TIME ZONE 'UTC');
    END LOOP;
END $$;

-- Drops the months of a table that end by an instant.
CREATE FUNCTION forget_months(whole TEXT, until TIMESTAMPTZ) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part    TEXT;
    dropped INTEGER := 0;
BEGIN
    IF whole NOT IN ('clicks', 'click_buckets') THEN
        RAISE EXCEPTION 'no table of months: %', whole;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = whole::regclass ORDER BY c.relname LOOP
        CONTINUE WHEN (to_date(right(part, 7), 'YYYY_MM') + INTERVAL '1 month')::TIMESTAMP AT TIME ZONE 'UTC' > until;
        EXECUTE format('DROP TABLE %I', part);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;
REVOKE EXECUTE ON FUNCTION keep_month, forget_months FROM PUBLIC;
GRANT EXECUTE ON FUNCTION keep_month, forget_months TO linkforge_system;

SELECT keep_month(month) FROM (SELECT DISTINCT date_trunc('month', clicked_at, 'UTC') AS month FROM clicks_before
    UNION SELECT DISTINCT date_trunc('month', starts_at, 'UTC') FROM click_buckets_before) AS months;
INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot, status)
    SELECT row_number() OVER (ORDER BY id), workspace_id, link_id, clicked_at, latency_ms, FALSE, FALSE, 302 FROM clicks_before;
INSERT INTO counters (name, next) SELECT 'click', count(*) + 1 FROM clicks;
INSERT INTO click_buckets SELECT link_id, starts_at, workspace_id, clicks, 0, 0, latency_mean, latency_m2, '' FROM click_buckets_before;
DROP TABLE clicks_before;
DROP TABLE click_buckets_before;

-- The rollups of a workspace are those of its links. Links without an owner have none.
CREATE TEMPORARY TABLE quarters ON COMMIT DROP AS
    SELECT workspace_id, starts_at, sum(clicks) AS clicks, sum(latency_mean * clicks) / sum(clicks) AS mean,
        sum(latency_m2 + clicks * latency_mean * latency_mean) AS squares
    FROM click_buckets WHERE workspace_id <> 'ws_00000000000000000000000000' GROUP BY workspace_id, starts_at;
INSERT INTO click_buckets SELECT workspace_id, starts_at, workspace_id, clicks, 0, 0, mean, greatest(0, squares - clicks * mean * mean), '' FROM quarters;
INSERT INTO click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2)
    SELECT workspace_id, workspace_id, sum(clicks), sum(mean * clicks) / sum(clicks),
        greatest(0, sum(squares) - sum(mean * clicks) * sum(mean * clicks) / sum(clicks))
    FROM quarters GROUP BY workspace_id;
DROP TABLE quarters;
UPDATE click_totals SET last_at = coalesce((SELECT max(starts_at) FROM click_buckets b WHERE b.subject_id = click_totals.subject_id), last_at);

GRANT SELECT ON clicks, click_buckets, click_days, orphans TO linkforge_tenant;
GRANT SELECT ON click_buckets TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON clicks, click_buckets, click_days, orphans, visitors, visitor_keys, click_batches TO linkforge_system;
GRANT SELECT, INSERT, UPDATE ON counters TO linkforge_system;

DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['clicks', 'click_buckets', 'click_days', 'orphans'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
CREATE POLICY resolved ON click_buckets TO linkforge_resolver USING (true);
