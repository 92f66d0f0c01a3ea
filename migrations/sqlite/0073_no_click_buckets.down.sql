ALTER TABLE click_totals ADD before_at TEXT NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';
CREATE TABLE click_buckets (
    subject_id   TEXT NOT NULL,  -- a link, or a workspace
    starts_at    TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    clicks       INTEGER NOT NULL,
    visits       INTEGER NOT NULL,
    bots         INTEGER NOT NULL,
    latency_mean REAL NOT NULL,  -- milliseconds
    latency_m2   REAL NOT NULL,  -- milliseconds squared
    counts       BLOB NOT NULL,  -- by dimension and value: see internal/click/counts.go
    PRIMARY KEY (subject_id, starts_at)
) STRICT, WITHOUT ROWID;
