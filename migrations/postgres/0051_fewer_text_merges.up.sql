-- Only the job that indexes texts waits for the emptying of the list. A longer one halves the WAL of a new link's text.
ALTER INDEX link_texts_by_search SET (gin_pending_list_limit = 4096);
