ALTER TABLE api_keys DROP requests_per_minute;
ALTER TABLE api_keys DROP networks;
ALTER TABLE api_keys DROP origins;
ALTER TABLE api_keys DROP destination_hosts;
