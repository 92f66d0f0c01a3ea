CREATE TABLE hit_usage (
    link_id    TEXT NOT NULL,
    month      TEXT NOT NULL,
    hits       INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    granted    INTEGER NOT NULL DEFAULT 0,
    max_hits   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, month)
) STRICT, WITHOUT ROWID;
CREATE TABLE click_leases (
    log_id  TEXT NOT NULL,
    number  INTEGER NOT NULL,
    link_id TEXT NOT NULL,
    month   TEXT NOT NULL,
    hits    INTEGER NOT NULL,
    PRIMARY KEY (log_id, number)
) STRICT, WITHOUT ROWID;
