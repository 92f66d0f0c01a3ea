DROP INDEX audit_events_in_order;
ALTER TABLE audit_events DROP version, DROP changes, DROP xid, DROP seq;
DROP SEQUENCE audit_events_seq;
