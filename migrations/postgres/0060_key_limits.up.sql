-- What an API key is limited to beside its scopes. The lists are JSON; an empty one limits nothing.
ALTER TABLE api_keys
    ADD destination_hosts   TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    ADD origins             TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    ADD networks            TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    ADD requests_per_minute BIGINT;
