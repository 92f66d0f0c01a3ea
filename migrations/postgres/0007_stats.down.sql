ALTER TABLE clicks NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_buckets NO FORCE ROW LEVEL SECURITY;
ALTER TABLE click_totals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE clicks RENAME TO clicks_after;
ALTER TABLE click_buckets RENAME TO click_buckets_after;
ALTER TABLE clicks_after RENAME CONSTRAINT clicks_pkey TO clicks_after_pkey;
ALTER TABLE click_buckets_after RENAME CONSTRAINT click_buckets_pkey TO click_buckets_after_pkey;
DROP INDEX clicks_by_link;

CREATE TABLE clicks (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    link_id      TEXT COLLATE "C" NOT NULL,
    clicked_at   TIMESTAMPTZ NOT NULL,
    latency_ms   DOUBLE PRECISION NOT NULL
);
CREATE INDEX clicks_by_link ON clicks (link_id, clicked_at);
CREATE TABLE click_buckets (
    link_id      TEXT COLLATE "C" NOT NULL,
    starts_at    TIMESTAMPTZ NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    clicks       BIGINT NOT NULL,
    latency_mean DOUBLE PRECISION NOT NULL,
    latency_m2   DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (link_id, starts_at)
);
INSERT INTO clicks SELECT 'clk_' || lpad(id::TEXT, 26, '0'), workspace_id, link_id, clicked_at, latency_ms FROM clicks_after;
INSERT INTO click_buckets SELECT subject_id, starts_at, workspace_id, clicks, latency_mean, latency_m2 FROM click_buckets_after
    WHERE subject_id <> workspace_id;
DELETE FROM click_totals WHERE subject_id = workspace_id;
DELETE FROM counters WHERE name = 'click';
DROP TABLE clicks_after, click_buckets_after, click_days, visitors, visitor_keys, click_batches, orphans;
DROP FUNCTION keep_month, forget_months;
ALTER TABLE click_totals DROP bots, DROP last_at, DROP before_at, DROP sealed_at;
ALTER TABLE click_totals RENAME subject_id TO link_id;
ALTER TABLE click_totals FORCE ROW LEVEL SECURITY;
ALTER TABLE links DROP stats_public;

REVOKE INSERT, UPDATE ON counters FROM linkforge_system;
GRANT SELECT ON clicks, click_buckets TO linkforge_tenant;
GRANT SELECT ON click_buckets TO linkforge_resolver;
GRANT SELECT, INSERT, UPDATE, DELETE ON clicks, click_buckets TO linkforge_system;
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['clicks', 'click_buckets'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_workspace ON %I TO linkforge_tenant USING (workspace_id = current_setting(''linkforge.workspace'', true))', name);
        EXECUTE format('CREATE POLICY all_rows ON %I TO linkforge_system USING (true)', name);
    END LOOP;
END $$;
CREATE POLICY resolved ON click_buckets TO linkforge_resolver USING (true);
