-- The rule that chose the destination of a click, and its target.
ALTER TABLE clicks ADD rule_id TEXT;
ALTER TABLE clicks ADD target_id TEXT;

-- The clicks before have neither: one value, which is empty (see internal/stats/details.go).
ALTER TABLE click_details ADD rule_id BLOB NOT NULL DEFAULT x'0100';
ALTER TABLE click_details ADD target_id BLOB NOT NULL DEFAULT x'0100';
