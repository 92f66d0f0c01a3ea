-- When the holder of a running job counts as dead. It renews this time, and the operator can run the job once it has passed.
ALTER TABLE leases ADD COLUMN dead_at TIMESTAMPTZ;
