ALTER INDEX link_texts_by_search SET (gin_pending_list_limit = 1024);
