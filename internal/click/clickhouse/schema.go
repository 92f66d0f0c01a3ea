package clickhouse

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/click"
)

// tables are created by the first node that needs them. Both fsync settings make an insert durable
// before it is confirmed.
//
// clicks_open has the clicks of days (UTC) whose visitors are still compared, by their numbers. A
// day moves to clicks as a whole when it is sealed, and each click that is the first of its visitor
// is marked as a visit then. Clicks that come when their day is no longer open are late: they are
// written to clicks at once.
//
// days has the counts of months whose single clicks are deleted, by dimension. The dimension 0 has
// all clicks of the day, and the values of click.LatencyDimension and click.QuarterDimension are
// written as numbers.
//
// bounds only grow: the days before "sealed" are in clicks, and those before "forgotten" in days.
// Of these, Copy has copied the days before "copied" from the SQL database, and "copying" is the
// number of its latest run.
//
// A fence keeps a batch out that was sent and given up: see Store.Write.
func tables() []string {
	common := `workspace_id String CODEC(ZSTD), link_id String CODEC(ZSTD),
		clicked_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD), id Int64 CODEC(Delta, ZSTD),
		latency_ns Int64 CODEC(T64, ZSTD), bot Bool CODEC(ZSTD), status Int32 CODEC(T64, ZSTD)`
	for _, d := range click.VisitDimensions {
		common += ", " + d.Column + " LowCardinality(String) CODEC(ZSTD)"
	}
	const durable = " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
	return []string{
		"CREATE TABLE IF NOT EXISTS clicks_open (" + common + ", visitor Int64 CODEC(ZSTD)) " +
			"ENGINE = MergeTree PARTITION BY toDate(clicked_at) ORDER BY (workspace_id, link_id, clicked_at, id)" +
			durable,
		"CREATE TABLE IF NOT EXISTS clicks (" + common + ", visit Bool CODEC(ZSTD), late Bool CODEC(ZSTD)) " +
			"ENGINE = MergeTree PARTITION BY toYYYYMM(clicked_at) ORDER BY (workspace_id, link_id, clicked_at, id)" +
			durable,
		`CREATE TABLE IF NOT EXISTS days (
			workspace_id String CODEC(ZSTD), link_id String CODEC(ZSTD), day Date CODEC(Delta, ZSTD),
			dimension UInt8 CODEC(ZSTD), value String CODEC(ZSTD), clicks Int64 CODEC(T64, ZSTD),
			visits Int64 CODEC(T64, ZSTD), bots Int64 CODEC(T64, ZSTD),
			latency_mean Float64 CODEC(ZSTD), latency_m2 Float64 CODEC(ZSTD)
		) ENGINE = MergeTree PARTITION BY toYYYYMM(day)
		ORDER BY (workspace_id, link_id, day, dimension, value)` + durable,
		`CREATE TABLE IF NOT EXISTS bounds (name String, at DateTime64(6, 'UTC')) ENGINE = MergeTree ORDER BY name` +
			durable,
		`CREATE TABLE IF NOT EXISTS fences (attempt Int64, at DateTime DEFAULT now()) ENGINE = MergeTree
			ORDER BY attempt TTL at + INTERVAL 7 DAY` + durable,
	}
}

// prepare creates the tables that do not exist. Concurrent calls do no harm.
func (s *Store) prepare(ctx context.Context) error {
	if s.isPrepared.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.client.readTimeout)
	defer cancel()
	for _, table := range tables() {
		if err := s.client.run(ctx, table); err != nil {
			return fmt.Errorf("creating the tables of clicks: %w", err)
		}
	}
	s.isPrepared.Store(true)
	return nil
}
