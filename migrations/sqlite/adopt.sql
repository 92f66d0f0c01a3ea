-- Brings a database that has the migrations in ../adopted.txt to the base, in one transaction. A change of the base is
-- added here too, until the first release.

ALTER TABLE orphans RENAME TO unmatched;

-- Secrets that do not name their key cannot be opened any more.
CREATE TABLE unmarked (
    secrets INTEGER CONSTRAINT run_linkforge_secrets_rewrap_of_35412b6f_first CHECK (secrets = 0)
) STRICT;
INSERT INTO unmarked SELECT count(*) FROM (SELECT secret FROM webhooks UNION ALL SELECT old_secret FROM webhooks
    UNION ALL SELECT secret FROM tasks UNION ALL SELECT secret FROM totp)
    WHERE substr(secret, 1, 8) <> CAST('sealed1:' AS BLOB);
DROP TABLE unmarked;

ALTER TABLE click_totals ADD COLUMN _outage INTEGER NOT NULL DEFAULT 0;
ALTER TABLE click_logs ADD COLUMN _alive_at TEXT;
ALTER TABLE click_logs ADD COLUMN _has_redis INTEGER NOT NULL DEFAULT FALSE;
CREATE INDEX click_logs_by_report ON click_logs (_alive_at);
