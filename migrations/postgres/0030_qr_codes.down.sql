ALTER TABLE workspaces DROP qr_style, DROP qr_logo;
ALTER TABLE clicks DROP qr_source;
ALTER TABLE click_details DROP qr_source;

-- Earlier versions cannot read the counts of dimension 18 (the source), which is the last one of a row.
-- See internal/rollup/counts.go.
CREATE FUNCTION without_source(counts BYTEA) RETURNS BYTEA LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at     INTEGER := 0;
    digit  INTEGER;
    place  INTEGER;
    size   INTEGER;
    remain INTEGER := 0;  -- values of the dimension
BEGIN
    WHILE at < length(counts) LOOP
        IF remain = 0 AND get_byte(counts, at) >= 18 THEN
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
UPDATE click_buckets SET counts = without_source(counts) WHERE position('\x12'::BYTEA IN counts) > 0;
UPDATE click_days SET counts = without_source(counts) WHERE position('\x12'::BYTEA IN counts) > 0;
ALTER TABLE click_buckets FORCE ROW LEVEL SECURITY;
ALTER TABLE click_days FORCE ROW LEVEL SECURITY;
DROP FUNCTION without_source;
