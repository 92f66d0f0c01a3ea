DROP TABLE link_versions;
ALTER TABLE links DROP version, DROP version_cause, DROP version_actor;
