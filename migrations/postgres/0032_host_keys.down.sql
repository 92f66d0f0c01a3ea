DROP TRIGGER link_updated_without_host_key ON links;
DROP TRIGGER link_inserted_without_host_key ON links;
DROP FUNCTION set_host_key();
DROP FUNCTION host_key_of(TEXT);
