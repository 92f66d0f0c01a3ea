-- Nodes older than migration 0024 do not write host_key: the triggers do, while such nodes run during a rolling update.
-- The function returns what package link computes.
CREATE FUNCTION host_key_of(url TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce((
        SELECT string_agg(label, '.' ORDER BY position DESC) || '.'
        FROM string_to_table(trim('[]' FROM substring(url FROM '^https?://(\[[^]]*\]|[^/:?]*)')), '.')
            WITH ORDINALITY AS labels (label, position)
    ), '')
$$;

CREATE FUNCTION set_host_key() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.host_key := host_key_of(NEW.canonical_url);
    RETURN NEW;
END $$;
CREATE TRIGGER link_inserted_without_host_key BEFORE INSERT ON links FOR EACH ROW
    WHEN (NEW.host_key = '' AND NEW.canonical_url <> '') EXECUTE FUNCTION set_host_key();
CREATE TRIGGER link_updated_without_host_key BEFORE UPDATE OF canonical_url ON links FOR EACH ROW
    WHEN (NEW.canonical_url <> OLD.canonical_url AND NEW.host_key = OLD.host_key) EXECUTE FUNCTION set_host_key();
