ALTER TABLE api_keys DROP folders;
