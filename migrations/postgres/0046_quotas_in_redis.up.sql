-- online
-- Redis counts the monthly hits of links, and the rows of links and targets their grants: there are no leases in
-- the database. A counter begins with the clicks of the month, which the resolver reads with the link.
GRANT SELECT ON click_totals TO linkforge_resolver;
-- next
DROP POLICY IF EXISTS resolved ON click_totals;
-- next
CREATE POLICY resolved ON click_totals TO linkforge_resolver USING (true);
-- next
DROP TABLE IF EXISTS hit_usage;
-- next
DROP TABLE IF EXISTS click_leases;
