-- The style of a workspace's QR codes; the logo is apart, because nearly no query needs it.
ALTER TABLE workspaces ADD qr_style TEXT;
ALTER TABLE workspaces ADD qr_logo BLOB;

-- The QR code that was scanned, by its source. The clicks before have none: one value, which is empty (see
-- internal/stats/details.go).
ALTER TABLE clicks ADD qr_source TEXT;
ALTER TABLE click_details ADD qr_source BLOB NOT NULL DEFAULT x'0100';
