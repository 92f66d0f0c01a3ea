-- How far a series of numbers has been handed out, in blocks.
CREATE TABLE counters (
    name TEXT COLLATE "C" PRIMARY KEY,
    next BIGINT NOT NULL
);
