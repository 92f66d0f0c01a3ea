package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/obs"
)

// scrapeDeadline bounds the waits of a scrape.
const scrapeDeadline = time.Second

// numbers returns every metric of this node, except those of the runtime and the process.
// docs/OPERATIONS.md documents each.
func (a *app) numbers(ctx context.Context) []obs.Number {
	cache, leases, clicks, live := a.Links.Resolver.CacheStats(), a.Quotas.Hits.Stats(), a.Recorder.Stats(),
		a.ClickStream.Stats()
	all := []obs.Number{
		obs.Gauge("linkforge_build_info", "Which version the node runs: always 1.", 1).By("version", cli.Version()),
		obs.Gauge("linkforge_ready", "Whether /readyz says that the node takes requests: 1, or 0 once it is to stop.",
			one(!a.stopping.Load())),
		obs.Gauge("linkforge_certificate_expiry_timestamp_seconds",
			"When the TLS certificate ends, 0 when the node speaks no TLS.", a.certificateEnd()),
		obs.Gauge("linkforge_database_up", "Whether the database answers this node: 1 or 0.", a.databaseUp(ctx)),
		obs.Gauge("linkforge_replica_lag_seconds", "How far the replica is behind the database, as far as this node knows; "+
			"0 when it has none.",
			a.db.Replica.Lag(a.now()).Seconds()),
		obs.Gauge("linkforge_redis_up", "Whether Redis answers this node: 1 or 0.", a.redisUp(ctx)),

		obs.Counter("linkforge_link_cache_hits_total", "Looks into the node's memory that found what they looked for.",
			cache.Hits),
		obs.Counter("linkforge_link_cache_misses_total", "Looks into the database.", cache.Misses),
		obs.Counter("linkforge_link_cache_evictions_total", "Entries dropped from memory to make room.", cache.Evictions),
		obs.Gauge("linkforge_link_cache_entries", "Entries in the node's memory: links, places and absences.", cache.Entries),
		obs.Gauge("linkforge_link_cache_bytes", "Memory that these take, as the cache weighs them.", cache.Bytes),
		obs.Counter("linkforge_code_collisions_total", "Generated codes that were taken by another URL.",
			a.Links.Collisions()),
		obs.Counter("linkforge_code_exhausted_total", "Links refused because all of their candidate codes were taken.",
			a.Links.ExhaustedCodes()),

		obs.Gauge("linkforge_quota_fallback", "Whether the database counts monthly hits, because Redis is away: 1 or 0.",
			one(leases.Away)),
		obs.Gauge("linkforge_quota_leases_open", "Leases of monthly hits that the node holds.", leases.Open),
		obs.Counter("linkforge_quota_leases_taken_total", "Leases of monthly hits that the node has taken.", leases.Leases),
		obs.Counter("linkforge_quota_hits_returned_total", "Leased hits that were not used and were given back.",
			leases.Returned),
		obs.Gauge("linkforge_quota_overshoot_bound",
			"Hits of this node that could be given twice should Redis lose its counters now.", leases.Held+clicks.Waiting),

		obs.Gauge("linkforge_click_log_lag_clicks", "Clicks in the node's log that the database does not have yet.",
			clicks.Waiting),
		obs.Gauge("linkforge_click_log_lag_seconds", "Age of the oldest of these, 0 when there are none.",
			clicks.Lag.Seconds()),
		obs.Gauge("linkforge_click_log_bytes", "Room that the node's log of clicks takes on disk.", clicks.LogBytes),
		obs.Gauge("linkforge_click_log_limit_bytes", "Room that it may take.", a.config.ClickLogBytes),
		obs.Counter("linkforge_clicks_lost_total", "Clicks that were answered and found no room in the log.", clicks.Lost),
		obs.Counter("linkforge_click_ingest_batches_total", "Transactions that have written clicks to the database.",
			clicks.Batches),
		obs.Counter("linkforge_click_ingested_total", "Clicks that this node has written to the database.", clicks.Ingested),
		obs.Gauge("linkforge_click_subscriptions", "Subscriptions to clicks at this node.", live.Watches),
		obs.Gauge("linkforge_click_subscriptions_lag_seconds",
			"How long ago the last look for new clicks was, 0 while nobody subscribes.", live.Lag.Seconds()),
		obs.Counter("linkforge_click_poison_total", "Records of the log that were set aside because they cannot be used.",
			clicks.Poison),
	}
	for status, answers := range a.redirects.Answers() {
		all = append(all, obs.Counter("linkforge_redirects_total", "Short URLs asked for, by the status of the answer.",
			answers).
			By("status", strconv.Itoa(status)))
	}
	return slices.Concat(all, a.operations(), a.jobNumbers())
}

// jobNumbers are the numbers of the jobs. Their label is no "job": Prometheus has one of its own.
func (a *app) jobNumbers() (all []obs.Number) {
	for _, job := range a.jobs.Stats() {
		all = append(all,
			obs.Gauge("linkforge_job_interval_seconds", "Time from one run of a job to the next, on any node.",
				job.Every.Seconds()).By("name", job.Name),
			obs.Counter("linkforge_job_failures_total", "Runs of a job on this node that failed.", job.Failures).
				By("name", job.Name),
			obs.Gauge("linkforge_job_last_success_timestamp_seconds",
				"When this node last did a job well, or, while it has not, when it began to look after it.",
				seconds(job.LastSuccess)).By("name", job.Name))
	}
	return all
}

// operations are the numbers of GraphQL. Kinds and codes are words of this program.
func (a *app) operations() (all []obs.Number) {
	answered := a.endpoint.Stats()
	for kind, outcomes := range answered.Outcomes {
		for code, n := range outcomes {
			all = append(all, obs.Counter("linkforge_graphql_operations_total",
				"GraphQL operations, by kind and by what they came to.", n).
				By("kind", kind).By("code", code))
		}
		all = append(all, obs.Histogram("linkforge_graphql_operation_seconds", "How long GraphQL operations took.",
			answered.Durations[kind]).
			By("kind", kind))
	}
	return all
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// seconds is an instant as Prometheus counts them, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// certificateEnd is when the server's own certificate ends.
func (a *app) certificateEnd() float64 {
	if a.certificate == nil {
		return 0
	}
	return seconds(a.certificate.current.Load().Leaf.NotAfter)
}

// databaseUp asks the database. No answer in time is none.
func (a *app) databaseUp(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, scrapeDeadline)
	defer cancel()
	return one(a.db.PingContext(ctx) == nil)
}

// redisUp asks Redis. No answer in time is none.
func (a *app) redisUp(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, scrapeDeadline)
	defer cancel()
	return one(a.kv.Ready(ctx) == nil)
}
