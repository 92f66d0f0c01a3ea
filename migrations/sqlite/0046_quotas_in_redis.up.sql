-- Redis, or the process itself, counts the monthly hits of links, and the rows of links and targets their grants:
-- there are no leases in the database.
DROP TABLE hit_usage;
DROP TABLE click_leases;
