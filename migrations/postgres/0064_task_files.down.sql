ALTER TABLE import_rows ADD ignored TEXT;
DROP INDEX import_rows_by_link;
ALTER TABLE tasks DROP COLUMN keeps_file;
ALTER TABLE tasks DROP COLUMN upload;
ALTER TABLE tasks DROP COLUMN secret;
