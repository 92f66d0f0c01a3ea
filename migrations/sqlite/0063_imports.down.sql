DROP TABLE link_origins;
DROP TABLE import_rows;
