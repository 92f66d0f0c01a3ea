DROP INDEX link_urls_to_check;
ALTER TABLE link_urls DROP destination_status, DROP last_checked_at, DROP check_at, DROP check_failures;
