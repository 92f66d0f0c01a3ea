-- Clicks of days that are not sealed are counted from their rows: there are no sums of quarters of an hour.
DROP TABLE click_buckets;
ALTER TABLE click_totals DROP before_at;
ALTER TABLE click_totals ADD sealed_clicks INTEGER NOT NULL DEFAULT 0;  -- about how many clicks are in click_days
