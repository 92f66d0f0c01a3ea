-- A sealed secret of the arguments of a task, as the token of an API; NULL: none, or the task has ended.
ALTER TABLE tasks ADD secret BYTEA;
-- The upload that is the file of a task; NULL: none. The file of a successful task with keeps_file outlives it.
ALTER TABLE tasks ADD upload TEXT COLLATE "C";
ALTER TABLE tasks ADD keeps_file BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE tasks SET upload = (SELECT max(upload) FROM task_chunks WHERE task_id = tasks.id);

-- Which rows of an import have created or changed a link.
CREATE INDEX import_rows_by_link ON import_rows (task_id, link_id) WHERE link_id IS NOT NULL;
ALTER TABLE import_rows DROP COLUMN ignored;
