-- How many clicks of a link were in its latest month, for quotas. The months are twelve times the year, plus those of it that
-- are over.
ALTER TABLE click_totals ADD _month INTEGER NOT NULL DEFAULT 0;         -- that of the latest click
ALTER TABLE click_totals ADD _before_month BIGINT NOT NULL DEFAULT 0;  -- the clicks before it
ALTER TABLE click_totals ADD _before_last BIGINT NOT NULL DEFAULT 0;   -- the clicks before the month that precedes it
