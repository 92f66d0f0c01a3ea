ALTER TABLE click_details DROP rule_id, DROP target_id;
ALTER TABLE clicks DROP rule_id, DROP target_id;
