ALTER TABLE orphans RENAME TO unmatched_requests;
