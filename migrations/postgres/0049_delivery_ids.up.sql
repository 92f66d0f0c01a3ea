-- Query.node finds deliveries by their ids.
GRANT SELECT (id, workspace_id) ON webhook_deliveries TO linkforge_resolver;
CREATE POLICY resolved ON webhook_deliveries TO linkforge_resolver USING (true);
