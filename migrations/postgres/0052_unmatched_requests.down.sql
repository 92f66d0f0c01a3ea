ALTER TABLE unmatched_requests RENAME TO orphans;
