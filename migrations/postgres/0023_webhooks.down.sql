DROP INDEX audit_events_by_commit;
DROP TABLE webhook_stops;
DROP TABLE webhook_attempts;
DROP TABLE webhook_deliveries;
DROP TABLE webhooks;
