-- Domains with codes of their own. The code of such a link is 'domain id/key of the own code', and own_address is host/own code
-- as it was given. A domain with links that are not deleted cannot be removed: they would be left without it.
ALTER TABLE domains ADD code_space TEXT COLLATE "C" NOT NULL DEFAULT 'SHARED';
ALTER TABLE domains ADD case_sensitive BOOLEAN NOT NULL DEFAULT true;
ALTER TABLE links ADD own_address TEXT COLLATE "C";
ALTER TABLE links ADD domain_id TEXT COLLATE "C" REFERENCES domains (id) ON DELETE SET NULL
    CONSTRAINT own_code_has_domain CHECK (own_address IS NULL OR domain_id IS NOT NULL OR deleted_at IS NOT NULL);
CREATE INDEX links_by_domain ON links (domain_id) WHERE domain_id IS NOT NULL;

-- The domain of a span, if it had codes of its own: removed domains leave their spans.
ALTER TABLE host_owners ADD domain_id TEXT COLLATE "C";
ALTER TABLE host_owners ADD case_sensitive BOOLEAN NOT NULL DEFAULT true;
