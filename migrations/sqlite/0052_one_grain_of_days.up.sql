-- Clicks that are not in click_days yet are counted from their rows: nothing writes click_buckets any more. A later version
-- drops it, and click_totals.before_at.
ALTER TABLE click_totals ADD _sealed_clicks INTEGER NOT NULL DEFAULT 0;  -- about how many clicks are in click_days
