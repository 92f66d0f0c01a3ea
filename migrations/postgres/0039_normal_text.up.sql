-- Text that is compared is in normalization form C. An external id whose form another link of the workspace has stays as
-- it is: of several, the one that had the form already, or else the oldest, keeps it. Names of UTM templates likewise.
-- URLs, the routing of links, versions and events do not change.
SET LOCAL ROLE linkforge_system;  -- the owner is subject to row-level security

INSERT INTO link_tags (workspace_id, tag, link_id) SELECT workspace_id, normalize(tag), link_id FROM link_tags
    WHERE tag IS NOT NORMALIZED ON CONFLICT DO NOTHING;
DELETE FROM link_tags WHERE tag IS NOT NORMALIZED;

UPDATE links SET external_id = normalize(external_id) WHERE external_id IS NOT NORMALIZED AND NOT EXISTS (
    SELECT 1 FROM links AS other WHERE other.workspace_id = links.workspace_id AND other.id <> links.id
        AND normalize(other.external_id) = normalize(links.external_id)
        AND (other.external_id IS NORMALIZED OR other.id < links.id));
UPDATE links SET title = normalize(title), note = normalize(note), metadata = normalize(metadata)
    WHERE title IS NOT NORMALIZED OR note IS NOT NORMALIZED OR metadata IS NOT NORMALIZED;
UPDATE link_metadata SET value = normalize(value) WHERE value IS NOT NORMALIZED;

-- As validate.Fold, but for letters that hardly any title has: their links are found by the old form until they change.
UPDATE links SET search = folded.search, title_key = folded.title_key FROM (
        SELECT id, replace(replace(translate(normalize(search, NFKC), 'ςı', 'σi'), 'ß', 'ss'), E'i\u0307', 'i') AS search,
            replace(replace(translate(normalize(title_key, NFKC), 'ςı', 'σi'), 'ß', 'ss'), E'i\u0307', 'i') AS title_key
        FROM links
    ) AS folded WHERE folded.id = links.id AND folded.search <> links.search;

UPDATE accounts SET name = normalize(name) WHERE name IS NOT NORMALIZED;
UPDATE workspaces SET name = normalize(name) WHERE name IS NOT NORMALIZED;
UPDATE api_keys SET name = normalize(name) WHERE name IS NOT NORMALIZED;
UPDATE webhooks SET name = normalize(name), tags = normalize(tags) WHERE name IS NOT NORMALIZED OR tags IS NOT NORMALIZED;
UPDATE utm_templates SET name = normalize(name), name_key = normalize(name_key)
    WHERE name IS NOT NORMALIZED AND NOT EXISTS (
        SELECT 1 FROM utm_templates AS other WHERE other.workspace_id = utm_templates.workspace_id
            AND other.id <> utm_templates.id AND normalize(other.name_key) = normalize(utm_templates.name_key)
            AND (other.name_key IS NORMALIZED OR other.id < utm_templates.id));

RESET ROLE;
