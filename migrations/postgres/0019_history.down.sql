DROP INDEX audit_events_in_order;
ALTER TABLE audit_events DROP version, DROP changes, DROP xid, DROP seq;
DROP SEQUENCE audit_events_seq;
DROP TABLE link_versions;
ALTER TABLE links DROP version, DROP version_cause, DROP version_actor;
