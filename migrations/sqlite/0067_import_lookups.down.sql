DROP INDEX import_rows_by_source;
DROP INDEX import_rows_by_link;
CREATE INDEX import_rows_by_source ON import_rows (task_id, source_id);
CREATE INDEX import_rows_by_link ON import_rows (task_id, link_id) WHERE link_id IS NOT NULL;
