DROP TABLE host_owners;
DROP TABLE scheduled_changes;
DROP FUNCTION schedule_changed;
DROP INDEX links_to_change;
ALTER TABLE links DROP version_starts_at, DROP next_change_at;
