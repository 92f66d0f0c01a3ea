CREATE INDEX links_by_search ON links USING gin (workspace_id, search gin_trgm_ops) WHERE purged_at IS NULL;
ALTER INDEX links_by_search SET (gin_pending_list_limit = 1024);
DROP TRIGGER link_text_created ON links;
DROP TRIGGER link_text_changed ON links;
DROP FUNCTION queue_link_text();
DROP TABLE link_text_backfill;
DROP TABLE link_text_queue;
DROP TABLE link_texts;
