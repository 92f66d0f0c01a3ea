ALTER TABLE clicks DROP rule_id, DROP target_id;
ALTER TABLE click_details DROP rule_id, DROP target_id;

-- Earlier versions cannot read the counts of dimensions 16 and 17 (rule and target), which are the last ones of a row.
-- See internal/rollup/counts.go.
CREATE FUNCTION without_routing(counts BYTEA) RETURNS BYTEA LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at     INTEGER := 0;
    digit  INTEGER;
    place  INTEGER;
    size   INTEGER;
    remain INTEGER := 0;  -- values of the dimension
BEGIN
    WHILE at < length(counts) LOOP
        IF remain = 0 AND get_byte(counts, at) >= 16 THEN
            RETURN substr(counts, 1, at);
        END IF;
        IF remain = 0 THEN
            at := at + 1;
        END IF;
        size := 0;  -- the number of values, or the length of a value
        place := 0;
        LOOP
            digit := get_byte(counts, at);
            size := size | ((digit & 127) << place);
            place := place + 7;
            at := at + 1;
            EXIT WHEN digit < 128;
        END LOOP;
        IF remain = 0 THEN
            remain := size;
            CONTINUE;
        END IF;
        at := at + size;
        FOR i IN 1..3 LOOP  -- clicks, visits, bots
            WHILE get_byte(counts, at) >= 128 LOOP
                at := at + 1;
            END LOOP;
            at := at + 1;
        END LOOP;
        remain := remain - 1;
    END LOOP;
    RETURN counts;
END $$;

ALTER TABLE click_buckets NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days NO FORCE ROW LEVEL SECURITY;
UPDATE click_buckets SET counts = without_routing(counts)
    WHERE position('rul_'::BYTEA IN counts) > 0 OR position('tgt_'::BYTEA IN counts) > 0;
UPDATE click_days SET counts = without_routing(counts)
    WHERE position('rul_'::BYTEA IN counts) > 0 OR position('tgt_'::BYTEA IN counts) > 0;
ALTER TABLE click_buckets FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days FORCE ROW LEVEL SECURITY;
DROP FUNCTION without_routing;
