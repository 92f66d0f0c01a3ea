-- Text that is compared is in normalization form C. An external id whose form another link of the workspace has stays as
-- it is: of several, the one that had the form already, or else the oldest, keeps it. Names of UTM templates likewise.
-- URLs, the routing of links, versions and events do not change. The functions normal and folded are in internal/db.
INSERT OR IGNORE INTO link_tags (workspace_id, tag, link_id) SELECT workspace_id, normal(tag), link_id FROM link_tags
    WHERE tag <> normal(tag);
DELETE FROM link_tags WHERE tag <> normal(tag);

UPDATE OR IGNORE links SET external_id = normal(external_id) WHERE external_id <> normal(external_id);
UPDATE links SET title = normal(title), note = normal(note), metadata = normal(metadata)
    WHERE title <> normal(title) OR note <> normal(note) OR metadata <> normal(metadata);
UPDATE link_metadata SET value = normal(value) WHERE value <> normal(value);

UPDATE links SET search = folded(search), title_key = folded(title_key) WHERE search <> folded(search);

UPDATE accounts SET name = normal(name) WHERE name <> normal(name);
UPDATE workspaces SET name = normal(name) WHERE name <> normal(name);
UPDATE api_keys SET name = normal(name) WHERE name <> normal(name);
UPDATE webhooks SET name = normal(name), tags = normal(tags) WHERE name <> normal(name) OR tags <> normal(tags);
UPDATE OR IGNORE utm_templates SET name = normal(name), name_key = normal(name_key) WHERE name <> normal(name);
