-- Clicks of days that are not sealed are counted from their rows: there are no sums of quarters of an hour.
DROP TABLE click_buckets;
ALTER TABLE click_totals
    DROP before_at,
    ADD sealed_clicks BIGINT NOT NULL DEFAULT 0;  -- about how many clicks are in click_days

CREATE OR REPLACE FUNCTION keep_month(month TIMESTAMPTZ) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first TIMESTAMP := date_trunc('month', month AT TIME ZONE 'UTC');
    whole TEXT;
    part  TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkforge.months'));
    FOREACH whole IN ARRAY ARRAY['clicks', 'click_details'] LOOP
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
    IF whole NOT IN ('clicks', 'click_details') THEN
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

-- Redirects count the clicks of a link in a month: they see whose and when, and nothing else of a click.
GRANT SELECT (link_id, clicked_at) ON clicks TO linkforge_resolver;
GRANT SELECT (subject_id, starts_at, clicks) ON click_days TO linkforge_resolver;
CREATE POLICY resolved ON clicks TO linkforge_resolver USING (true);
CREATE POLICY resolved ON click_days TO linkforge_resolver USING (true);
