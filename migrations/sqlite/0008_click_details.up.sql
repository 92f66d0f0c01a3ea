-- The clicks of a subject on a busy day (UTC) that is over, column by column: what several filters keep is found without
-- reading them one by one. See internal/click/details.go.
CREATE TABLE click_details (
    subject_id   TEXT NOT NULL,  -- a link, or a workspace
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,  -- other than in click_days: out of date, and not read
    moments      BLOB NOT NULL,  -- of each click the quarter of an hour, and whether it is a visit or a bot's
    referrer     BLOB NOT NULL,
    country      BLOB NOT NULL,
    device       BLOB NOT NULL,
    browser      BLOB NOT NULL,
    os           BLOB NOT NULL,
    language     BLOB NOT NULL,
    utm_source   BLOB NOT NULL,
    utm_medium   BLOB NOT NULL,
    utm_campaign BLOB NOT NULL,
    utm_term     BLOB NOT NULL,
    utm_content  BLOB NOT NULL,
    status       BLOB NOT NULL,
    link_id      BLOB NOT NULL,
    PRIMARY KEY (subject_id, starts_at)
) STRICT;

ALTER TABLE click_totals ADD detailed_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';  -- of a workspace: the days before are in click_details
