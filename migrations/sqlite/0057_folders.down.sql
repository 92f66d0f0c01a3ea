DROP INDEX links_by_folder;
ALTER TABLE links DROP folder_id;
DROP TABLE folders;
