-- Clicks of this month wait in the click logs of the nodes until the links are counted.
LOCK TABLE click_totals IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL ROLE linkforge_system;  -- the owner is subject to row-level security
UPDATE click_totals AS t SET _month = this.month, _before_month = t.clicks
        - (SELECT coalesce(sum(d.clicks), 0) FROM click_days AS d WHERE d.subject_id = t.subject_id AND d.starts_at >= this.start AND d.starts_at < t.sealed_at)
        - (SELECT count(*) FROM clicks AS c WHERE c.link_id = t.subject_id AND c.clicked_at >= this.start AND c.clicked_at >= t.sealed_at)
    FROM (SELECT date_trunc('month', now(), 'UTC') AS start,
        CAST(extract(year FROM now() AT TIME ZONE 'UTC') * 12 + extract(month FROM now() AT TIME ZONE 'UTC') - 1 AS INTEGER) AS month) AS this
    WHERE t.last_at >= this.start AND t.subject_id <> t.workspace_id;
RESET ROLE;
