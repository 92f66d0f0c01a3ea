DROP TABLE click_details;
ALTER TABLE click_totals DROP detailed_at;
