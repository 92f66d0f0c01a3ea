DROP TABLE host_owners;
DROP TABLE scheduled_changes;
DROP INDEX links_to_change;
ALTER TABLE links DROP version_starts_at;
ALTER TABLE links DROP next_change_at;
