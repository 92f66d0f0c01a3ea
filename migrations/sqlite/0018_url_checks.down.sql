DROP INDEX link_urls_to_check;
ALTER TABLE link_urls DROP destination_status;
ALTER TABLE link_urls DROP last_checked_at;
ALTER TABLE link_urls DROP check_at;
ALTER TABLE link_urls DROP check_failures;
