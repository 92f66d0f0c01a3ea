ALTER TABLE click_totals ADD before_at TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';
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

GRANT SELECT ON click_buckets TO linkforge_tenant, linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON click_buckets TO linkforge_system;
ALTER TABLE click_buckets ENABLE ROW LEVEL SECURITY;
ALTER TABLE click_buckets FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON click_buckets TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace', true));
CREATE POLICY all_rows ON click_buckets TO linkforge_system USING (true);
CREATE POLICY resolved ON click_buckets TO linkforge_resolver USING (true);

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
