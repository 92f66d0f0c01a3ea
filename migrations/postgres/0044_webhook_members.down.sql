UPDATE webhooks SET notice = NULL WHERE notice = 'MEMBER';
ALTER TABLE webhooks DROP CONSTRAINT webhooks_notice_check;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_notice_check CHECK (notice IN ('RECEIVER', 'API_KEY'));
ALTER TABLE webhooks DROP COLUMN kept_by;
