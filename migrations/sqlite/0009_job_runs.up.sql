-- What came of a job when it was done last, for the operator.
ALTER TABLE leases ADD node TEXT;  -- which had it
ALTER TABLE leases ADD began_at TEXT;
ALTER TABLE leases ADD ended_at TEXT;  -- null while it goes on, and when the node has died
ALTER TABLE leases ADD error TEXT;  -- null when it ended well
