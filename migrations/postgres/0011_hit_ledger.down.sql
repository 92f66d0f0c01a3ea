ALTER TABLE hit_usage RESET (fillfactor);
CREATE INDEX hit_usage_by_change ON hit_usage (changed_at);
ALTER TABLE hit_usage DROP COLUMN max_hits;
ALTER TABLE hit_usage DROP COLUMN granted;
