-- The rule that chose the destination of a click, and its target.
ALTER TABLE clicks ADD rule_id TEXT COLLATE "C", ADD target_id TEXT COLLATE "C";

-- The clicks before have neither: one value, which is empty (see internal/stats/details.go).
ALTER TABLE click_details ADD rule_id BYTEA NOT NULL DEFAULT '\x0100', ADD target_id BYTEA NOT NULL DEFAULT '\x0100';
