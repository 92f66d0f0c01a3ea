ALTER TABLE leases DROP COLUMN dead_at;
