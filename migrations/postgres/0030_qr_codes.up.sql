-- The style of a workspace's QR codes; the logo is apart, because nearly no query needs it.
ALTER TABLE workspaces ADD qr_style JSONB, ADD qr_logo BYTEA;

-- The QR code that was scanned, by its source. The clicks before have none: one value, which is empty (see
-- internal/stats/details.go).
ALTER TABLE clicks ADD qr_source TEXT COLLATE "C";
ALTER TABLE click_details ADD qr_source BYTEA NOT NULL DEFAULT '\x0100';
