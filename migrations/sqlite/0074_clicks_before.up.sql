-- Clicks of a link before it was purged: those of the link that has its code now do not include them. Which ones these
-- are is not known any more, so all that were not granted so far do not count.
ALTER TABLE grants ADD clicks_before INTEGER NOT NULL DEFAULT 0;
UPDATE grants SET clicks_before = total.clicks - granted FROM click_totals AS total
    WHERE total.subject_id = grants.subject_id AND grants.subject_id = link_id AND max_clicks IS NOT NULL AND granted < total.clicks;
