DROP INDEX audit_events_rare;
