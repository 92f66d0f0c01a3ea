-- Nothing has written these since clicks that are not in click_days yet are counted from their rows (0052).
DROP TABLE click_buckets;
ALTER TABLE click_totals DROP COLUMN before_at;
