DROP POLICY resolved ON webhook_deliveries;
REVOKE SELECT (id, workspace_id) ON webhook_deliveries FROM linkforge_resolver;
