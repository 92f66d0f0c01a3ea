DROP TABLE link_versions;
ALTER TABLE links DROP version;
ALTER TABLE links DROP version_cause;
ALTER TABLE links DROP version_actor;
