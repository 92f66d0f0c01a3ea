CREATE TABLE hit_usage (
    link_id    TEXT COLLATE "C" NOT NULL,
    month      TEXT COLLATE "C" NOT NULL,
    hits       BIGINT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    granted    BIGINT NOT NULL DEFAULT 0,
    max_hits   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, month)
) WITH (fillfactor = 70);
CREATE TABLE click_leases (
    log_id  TEXT COLLATE "C" NOT NULL,
    number  BIGINT NOT NULL,
    link_id TEXT COLLATE "C" NOT NULL,
    month   TEXT COLLATE "C" NOT NULL,
    hits    BIGINT NOT NULL,
    PRIMARY KEY (log_id, number)
);
GRANT SELECT ON hit_usage TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON hit_usage, click_leases TO linkforge_system;
DROP POLICY resolved ON click_totals;
REVOKE SELECT ON click_totals FROM linkforge_resolver;
