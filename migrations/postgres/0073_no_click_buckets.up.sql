-- Nothing has written these since clicks that are not in click_days yet are counted from their rows (0052).
DROP TABLE click_buckets;
ALTER TABLE click_totals DROP COLUMN before_at;

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
