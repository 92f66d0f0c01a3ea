-- The account that has enabled a webhook after its creator lost the permission; NULL: the creator.
ALTER TABLE webhooks ADD COLUMN kept_by TEXT COLLATE "C";
ALTER TABLE webhooks DROP CONSTRAINT webhooks_notice_check;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_notice_check CHECK (notice IN ('RECEIVER', 'API_KEY', 'MEMBER'));
