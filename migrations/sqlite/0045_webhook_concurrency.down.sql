ALTER TABLE webhooks DROP COLUMN concurrency;
