-- How many deliveries of a webhook all nodes may send at once.
ALTER TABLE webhooks ADD COLUMN concurrency INTEGER NOT NULL DEFAULT 2;
