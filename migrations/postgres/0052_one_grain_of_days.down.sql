-- The earlier version reads days that are over from click_days, and the others from click_buckets, without counts by
-- dimension: "linkforge stats rebuild" adds those.
CREATE TABLE click_buckets (
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
) PARTITION BY RANGE (starts_at);

DROP POLICY resolved ON clicks;
DROP POLICY resolved ON click_days;
REVOKE SELECT (link_id, clicked_at) ON clicks FROM linkforge_resolver;
REVOKE SELECT (subject_id, starts_at, clicks) ON click_days FROM linkforge_resolver;
ALTER TABLE click_totals DROP sealed_clicks,
    ADD before_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- what last_at was before it was last written

CREATE OR REPLACE FUNCTION keep_month(month TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first TIMESTAMP := date_trunc('month', month AT TIME ZONE 'UTC');
    whole TEXT;
    part  TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    FOREACH whole IN ARRAY ARRAY['clicks', 'click_buckets', 'click_details'] LOOP
        part := whole || to_char(first, '_YYYY_MM');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, whole);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO linkforge_system', part);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', whole, part,
            first AT TIME ZONE 'UTC', (first + INTERVAL '1 month') AT TIME ZONE 'UTC');
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION forget_months(whole TEXT, until TIMESTAMPTZ) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part    TEXT;
    dropped INTEGER := 0;
BEGIN
    IF whole NOT IN ('clicks', 'click_buckets', 'click_details') THEN
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

SELECT keep_month(to_date(right(c.relname, 7), 'YYYY_MM')::TIMESTAMP AT TIME ZONE 'UTC')
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'clicks'::regclass;

ALTER TABLE clicks NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_totals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days NO FORCE ROW LEVEL SECURITY;
INSERT INTO click_buckets SELECT subject_id, quarter, workspace_id, count(*), count(*) FILTER (WHERE visit), count(*) FILTER (WHERE bot),
        avg(latency_ms), coalesce(var_pop(latency_ms), 0) * count(*), ''
    FROM (SELECT unnest(CASE WHEN workspace_id = 'ws_00000000000000000000000000' THEN ARRAY[link_id] ELSE ARRAY[link_id, workspace_id] END) AS subject_id,
        date_bin('15 minutes', clicked_at, TIMESTAMPTZ '2000-01-01 00:00:00+00:00') AS quarter, workspace_id, visit, bot, latency_ms FROM clicks) AS counted
    GROUP BY subject_id, quarter, workspace_id;
DELETE FROM click_days AS d USING click_totals AS t WHERE t.subject_id = d.subject_id AND d.starts_at >= date_trunc('day', t.sealed_at, 'UTC');
UPDATE click_totals SET sealed_at = date_trunc('day', sealed_at, 'UTC'), before_at = last_at;
ALTER TABLE clicks FORCE ROW LEVEL SECURITY;
ALTER TABLE click_totals FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days FORCE ROW LEVEL SECURITY;

GRANT SELECT ON click_buckets TO linkforge_tenant;
GRANT SELECT ON click_buckets TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON click_buckets TO linkforge_system;
ALTER TABLE click_buckets ENABLE ROW LEVEL SECURITY;
ALTER TABLE click_buckets FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON click_buckets TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON click_buckets TO linkforge_system USING (true);
CREATE POLICY resolved ON click_buckets TO linkforge_resolver USING (true);
