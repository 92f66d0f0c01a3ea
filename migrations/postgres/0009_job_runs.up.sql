-- What came of a job when it was done last, for the operator.
ALTER TABLE leases
    ADD node     TEXT,         -- which had it
    ADD began_at TIMESTAMPTZ,
    ADD ended_at TIMESTAMPTZ,  -- null while it goes on, and when the node has died
    ADD error    TEXT;         -- null when it ended well
