-- The last run of each job, for the operator.
ALTER TABLE leases
    ADD node     TEXT,         -- the node of the last run
    ADD began_at TIMESTAMPTZ,
    ADD ended_at TIMESTAMPTZ,  -- null while the job is running, and if its node died
    ADD error    TEXT;         -- null if the job succeeded
