ALTER TABLE import_rows ADD code_key TEXT COLLATE "C";
CREATE UNIQUE INDEX import_rows_by_code ON import_rows (task_id, code_key) WHERE code_key IS NOT NULL;
DROP TABLE import_claims;
