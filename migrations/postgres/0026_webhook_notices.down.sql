DROP INDEX webhooks_to_announce;
ALTER TABLE webhooks DROP COLUMN notice;
DROP INDEX webhooks_of_clicks;
CREATE INDEX webhooks_of_clicks ON webhooks (id) WHERE wants_clicks;
