ALTER TABLE audit_events DROP url;
ALTER TABLE link_urls DROP reported_state;
ALTER TABLE links DROP reported_state;
