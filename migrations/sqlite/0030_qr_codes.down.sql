ALTER TABLE workspaces DROP qr_style;
ALTER TABLE workspaces DROP qr_logo;
ALTER TABLE clicks DROP qr_source;
ALTER TABLE click_details DROP qr_source;

-- Earlier versions cannot read the counts of dimension 18 (the source), which is the last one of a row.
-- See internal/rollup/counts.go. The state of a walk is the next item: 0 a dimension, 1 the number of its values, 2 the
-- length of a value, 3 to 5 its clicks, visits and bots; 6 is the end of the walk, at dimension 18.
CREATE TABLE digits (
    byte   BLOB NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
WITH RECURSIVE numbers (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number < 255)
INSERT INTO digits SELECT unhex(printf('%02X', number)), number FROM numbers;

CREATE TABLE scanned (
    of_day     INTEGER NOT NULL,
    subject_id TEXT NOT NULL,
    starts_at  TEXT NOT NULL,
    size       INTEGER NOT NULL,  -- of the counts without the dimension
    PRIMARY KEY (of_day, subject_id, starts_at)
) STRICT, WITHOUT ROWID;
WITH RECURSIVE walk (of_day, subject_id, starts_at, counts, at, state, remain, size, place) AS (
    SELECT FALSE, subject_id, starts_at, counts, 1, 0, 0, 0, 0 FROM click_buckets WHERE instr(counts, x'12') > 0
    UNION ALL
    SELECT TRUE, subject_id, starts_at, counts, 1, 0, 0, 0, 0 FROM click_days WHERE instr(counts, x'12') > 0
    UNION ALL
    SELECT of_day, subject_id, starts_at, counts,
        CASE WHEN state = 0 AND number >= 18 THEN at
            WHEN state = 2 AND number < 128 THEN at + 1 + (size | (number << place)) ELSE at + 1 END,
        CASE WHEN state = 0 AND number >= 18 THEN 6 WHEN state > 0 AND number >= 128 THEN state
            WHEN state < 5 THEN state + 1 WHEN remain > 1 THEN 2 ELSE 0 END,
        CASE WHEN state = 1 AND number < 128 THEN size | (number << place)
            WHEN state = 5 AND number < 128 THEN remain - 1 ELSE remain END,
        CASE WHEN state IN (1, 2) AND number >= 128 THEN size | ((number & 127) << place) ELSE 0 END,
        CASE WHEN state IN (1, 2) AND number >= 128 THEN place + 7 ELSE 0 END
    FROM walk JOIN digits ON byte = substr(counts, at, 1) WHERE state < 6
)
INSERT INTO scanned SELECT of_day, subject_id, starts_at, at - 1 FROM walk WHERE state = 6;

UPDATE click_buckets SET counts = substr(counts, 1, size) FROM scanned
    WHERE NOT of_day AND scanned.subject_id = click_buckets.subject_id AND scanned.starts_at = click_buckets.starts_at;
UPDATE click_days SET counts = substr(counts, 1, size) FROM scanned
    WHERE of_day AND scanned.subject_id = click_days.subject_id AND scanned.starts_at = click_days.starts_at;
DROP TABLE scanned;
DROP TABLE digits;
