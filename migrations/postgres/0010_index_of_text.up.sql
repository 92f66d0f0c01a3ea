-- New links wait in a list, in kB, before their trigrams are put into their places by whoever fills it up: for 95 ms with the 4 MB that are
-- the default, while all who create in the workspace wait. Each search reads the list, too.
ALTER INDEX links_by_search SET (gin_pending_list_limit = 1024);
