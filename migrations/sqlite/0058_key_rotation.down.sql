DROP INDEX api_keys_by_old_hash;
ALTER TABLE api_keys DROP old_hash;
ALTER TABLE api_keys DROP old_hash_ends_at;
