-- The database counts the monthly hits of all links, and Redis none. hits is what has been granted
-- to processes; granted and max_hits are the hits and the limit of the last request.
ALTER TABLE hit_usage ADD COLUMN granted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hit_usage ADD COLUMN max_hits INTEGER NOT NULL DEFAULT 0;
DROP INDEX hit_usage_by_change;
