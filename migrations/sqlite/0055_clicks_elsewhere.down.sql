DROP TABLE click_moves;
ALTER TABLE click_logs DROP _sending_clicks;
ALTER TABLE click_logs DROP _sending_id;
