-- The last run of each job, for the operator.
ALTER TABLE leases ADD node TEXT;  -- the node of the last run
ALTER TABLE leases ADD began_at TEXT;
ALTER TABLE leases ADD ended_at TEXT;  -- null while the job is running, and if its node died
ALTER TABLE leases ADD error TEXT;  -- null if the job succeeded
