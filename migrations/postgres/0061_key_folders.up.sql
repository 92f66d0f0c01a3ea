-- The folders that an API key is restricted to, as JSON; NULL: no restriction.
ALTER TABLE api_keys ADD folders TEXT COLLATE "C";
