ALTER INDEX links_by_search RESET (gin_pending_list_limit);
