DROP TRIGGER audit_event_ordered;
DROP INDEX audit_events_in_order;
DROP INDEX audit_events_seq;
ALTER TABLE audit_events DROP version;
ALTER TABLE audit_events DROP changes;
ALTER TABLE audit_events DROP xid;
ALTER TABLE audit_events DROP seq;
