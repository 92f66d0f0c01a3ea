UPDATE click_totals AS t SET _month = this.month, _before_month = t.clicks
        - (SELECT coalesce(sum(d.clicks), 0) FROM click_days AS d WHERE d.subject_id = t.subject_id AND d.starts_at >= this.start AND d.starts_at < t.sealed_at)
        - (SELECT count(*) FROM clicks AS c WHERE c.link_id = t.subject_id AND c.clicked_at >= this.start AND c.clicked_at >= t.sealed_at)
    FROM (SELECT strftime('%Y-%m-01 00:00:00+00:00', 'now') AS start,
        CAST(strftime('%Y', 'now') AS INTEGER) * 12 + CAST(strftime('%m', 'now') AS INTEGER) - 1 AS month) AS this
    WHERE t.last_at >= this.start AND t.subject_id <> t.workspace_id;
