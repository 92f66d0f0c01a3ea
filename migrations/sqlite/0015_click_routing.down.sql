ALTER TABLE click_details DROP target_id;
ALTER TABLE click_details DROP rule_id;
ALTER TABLE clicks DROP target_id;
ALTER TABLE clicks DROP rule_id;
