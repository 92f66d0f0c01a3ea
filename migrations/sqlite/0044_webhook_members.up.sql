-- The account that has enabled a webhook after its creator lost the permission; NULL: the creator.
ALTER TABLE webhooks ADD COLUMN kept_by TEXT;
DROP INDEX webhooks_to_announce;
ALTER TABLE webhooks RENAME COLUMN notice TO notice_before;
ALTER TABLE webhooks ADD COLUMN notice TEXT CHECK (notice IN ('RECEIVER', 'API_KEY', 'MEMBER'));
UPDATE webhooks SET notice = notice_before WHERE notice_before IS NOT NULL;
ALTER TABLE webhooks DROP COLUMN notice_before;
CREATE INDEX webhooks_to_announce ON webhooks (id) WHERE notice IS NOT NULL;
