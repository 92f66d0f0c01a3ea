DROP INDEX webhooks_to_announce;
ALTER TABLE webhooks RENAME COLUMN notice TO notice_before;
ALTER TABLE webhooks ADD COLUMN notice TEXT CHECK (notice IN ('RECEIVER', 'API_KEY'));
UPDATE webhooks SET notice = notice_before WHERE notice_before IN ('RECEIVER', 'API_KEY');
ALTER TABLE webhooks DROP COLUMN notice_before;
ALTER TABLE webhooks DROP COLUMN kept_by;
CREATE INDEX webhooks_to_announce ON webhooks (id) WHERE notice IS NOT NULL;
