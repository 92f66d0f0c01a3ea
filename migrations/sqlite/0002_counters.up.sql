-- How far a series of numbers has been handed out, in blocks.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT;
