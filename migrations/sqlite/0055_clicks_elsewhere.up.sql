-- A store of clicks beside this database, which has no transactions: the batch that a log sends to it, and the links whose
-- clicks it has to move to the workspaces that have claimed them.
ALTER TABLE click_logs ADD _sending_id INTEGER NOT NULL DEFAULT 0;      -- the first id of the batch; 0 without one
ALTER TABLE click_logs ADD _sending_clicks INTEGER NOT NULL DEFAULT 0;  -- how many it has; negative when it was given up

CREATE TABLE click_moves (
    link_id      TEXT NOT NULL PRIMARY KEY,
    to_workspace TEXT NOT NULL,
    requests     INTEGER NOT NULL,            -- how often the move was requested
    attempt      INTEGER NOT NULL DEFAULT 0   -- the number of the latest attempt
) STRICT;
