-- What an API key is limited to beside its scopes. The lists are JSON; an empty one limits nothing.
ALTER TABLE api_keys ADD destination_hosts TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_keys ADD origins TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_keys ADD networks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_keys ADD requests_per_minute INTEGER;
