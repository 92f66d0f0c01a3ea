-- New links wait in a list before their trigrams enter the index. The transaction that fills the
-- list empties it: with the default of 4 MB for 95 ms, while other creations in its workspace wait.
-- Each search reads the list, too. The unit is kB.
ALTER INDEX links_by_search SET (gin_pending_list_limit = 1024);
