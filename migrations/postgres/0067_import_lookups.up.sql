-- Values come first: SQLite, which has no statistics, would read all rows of a task rather than look up many values in it.
DROP INDEX import_rows_by_source;
DROP INDEX import_rows_by_link;
CREATE INDEX import_rows_by_source ON import_rows (source_id, task_id);
CREATE INDEX import_rows_by_link ON import_rows (link_id, task_id) WHERE link_id IS NOT NULL;
