-- The secret of an API key before its last rotation, which is valid until it ends.
ALTER TABLE api_keys ADD old_hash BYTEA, ADD old_hash_ends_at TIMESTAMPTZ;
CREATE UNIQUE INDEX api_keys_by_old_hash ON api_keys (old_hash) WHERE old_hash IS NOT NULL;
