-- The search for new clicks reads the workspaces of webhooks from an index.
DROP INDEX webhooks_of_clicks;
CREATE INDEX webhooks_of_clicks ON webhooks (workspace_id, id) WHERE wants_clicks;
-- Emails about disabled webhooks wait in the row until they are handed over.
ALTER TABLE webhooks ADD COLUMN notice TEXT CHECK (notice IN ('RECEIVER', 'API_KEY'));
CREATE INDEX webhooks_to_announce ON webhooks (id) WHERE notice IS NOT NULL;
