ALTER TABLE click_totals DROP _before_last;
ALTER TABLE click_totals DROP _before_month;
ALTER TABLE click_totals DROP _month;
