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

-- Each code of an authenticator app is valid once.
ALTER TABLE totp ADD COLUMN used_steps TEXT NOT NULL DEFAULT '';
UPDATE totp SET used_steps = CAST(last_step AS TEXT);
ALTER TABLE totp DROP COLUMN last_step;
