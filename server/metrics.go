package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/cli"
)

// scrapeDeadline bounds the waits of a scrape.
const scrapeDeadline = time.Second

// numbers returns every metric of this node, except those of the runtime and the process.
// docs/OPERATIONS.md documents each.
func (a *app) numbers(ctx context.Context) []number {
	return slices.Concat(a.nodeNumbers(ctx), a.linkNumbers(), a.quotaNumbers(), a.clickNumbers(), a.redirectNumbers(),
		a.operations(), a.jobNumbers())
}

// nodeNumbers returns the metrics of the node and of the servers that it depends on.
func (a *app) nodeNumbers(ctx context.Context) []number {
	return []number{
		gauge("linkforge_build_info", "The version that the node runs, as a label. Always 1.",
			1).By("version", cli.Version()),
		gauge("linkforge_ready", "1 while the node is ready (/readyz), 0 once it shuts down.",
			one(!a.stopping.Load())),
		gauge("linkforge_certificate_expiry_timestamp_seconds",
			"Expiry of the TLS certificate, or of the first of several. 0 without one.", a.certificateEnd()),
		gauge("linkforge_database_up", "1 if the database answers this node, else 0.", a.databaseUp(ctx)),
		gauge("linkforge_replica_lag_seconds",
			"Replication lag of the read replica as measured by this node. 0 without a replica.",
			a.db.Replica.Lag(a.now()).Seconds()),
		gauge("linkforge_redis_up", "1 if Redis takes writes of this node, else 0.", a.redisUp(ctx)),
		gauge("linkforge_redis_breaker_open",
			"1 while commands to Redis are refused without being sent because it did not answer or took no writes, "+
				"else 0.", one(a.kv.IsOpen())),
	}
}

// linkNumbers returns the metrics of the link cache and of the codes.
func (a *app) linkNumbers() []number {
	cache := a.Links.Resolver.CacheStats()
	return []number{
		counter("linkforge_link_cache_hits_total", "Look-ups answered by the link cache.",
			cache.Hits),
		counter("linkforge_link_cache_misses_total", "Look-ups that needed the database.", cache.Misses),
		counter("linkforge_link_cache_evictions_total", "Entries evicted from the link cache.", cache.Evictions),
		gauge("linkforge_link_cache_entries", "Entries in the link cache: links, hosts and unknown codes.",
			cache.Entries),
		gauge("linkforge_link_cache_bytes", "Estimated memory of the link cache.", cache.Bytes),
		counter("linkforge_code_collisions_total", "Generated codes that were already used by another URL.",
			a.Creation.Collisions()),
		counter("linkforge_code_exhausted_total", "Links refused because all candidate codes were in use.",
			a.Creation.ExhaustedCodes()),
	}
}

// quotaNumbers returns the metrics of monthly hits and of maxClicks.
func (a *app) quotaNumbers() []number {
	leases, clicks := a.Quotas.Hits.Stats(), a.Recorder.Stats()
	return []number{
		gauge("linkforge_quota_unavailable",
			"1 while Redis grants no hits, so that links redirect up to half of their quotas, else 0.",
			one(leases.IsOutage)),
		gauge("linkforge_quota_leases_open", "Leases of monthly hits that the node holds.", leases.Open),
		counter("linkforge_quota_leases_taken_total", "Leases of monthly hits that the node has taken.", leases.Leases),
		counter("linkforge_quota_hits_returned_total", "Unused leased hits that were returned.",
			leases.Returned),
		counter("linkforge_quota_hits_without_redis_total",
			"Hits that the node has granted within the first half of quotas, because Redis did not answer.",
			leases.InOutage),
		gauge("linkforge_quota_overshoot_bound",
			"Hits that a link can exceed its quota by, if Redis lost its data now: those leased by this node, and "+
				"those "+
				"whose clicks are not in the database, or since a moment ago. Add those of all nodes.",
			leases.Unused+leases.Pending+clicks.Waiting+clicks.Recent),
		gauge("linkforge_grants_outstanding",
			"Grants of maxClicks without a click: those of redirects in flight, and unused ones that are to be "+
				"returned. "+
				"Those of a crashed node stay granted.", a.Quotas.OutstandingGrants()),
	}
}

// clickNumbers returns the metrics of the click log and of the subscriptions.
func (a *app) clickNumbers() []number {
	clicks, live, events := a.Recorder.Stats(), a.ClickStream.Stats(), a.EventStream.Stats()
	return []number{
		gauge("linkforge_click_log_lag_clicks", "Clicks in the click log that are not in the database yet.",
			clicks.Waiting),
		gauge("linkforge_click_log_lag_seconds",
			"Age of the oldest click that is not in the database yet. 0 without one.",
			clicks.Lag.Seconds()),
		gauge("linkforge_click_log_bytes", "Size of the click log on disk.", clicks.LogBytes),
		gauge("linkforge_click_log_limit_bytes", "Maximum size of the click log.", a.config.ClickLogBytes),
		counter("linkforge_clicks_lost_total", "Redirects whose click was lost because the click log was full.",
			clicks.Lost),
		counter("linkforge_click_ingest_batches_total", "Transactions that wrote clicks to the database.",
			clicks.Batches),
		counter("linkforge_click_ingested_total", "Clicks that this node wrote to the database.", clicks.Ingested),
		gauge("linkforge_click_subscriptions", "Active subscriptions to clicks on this node.", live.Watches),
		gauge("linkforge_click_subscriptions_lag_seconds",
			"Time since all clicks were delivered. 0 without subscriptions.", live.Lag.Seconds()),
		gauge("linkforge_event_subscriptions", "Active subscriptions to events on this node.", events.Watches),
		gauge("linkforge_event_subscriptions_lag_seconds",
			"Time since all events were delivered. 0 without subscriptions.", events.Lag.Seconds()),
		counter("linkforge_click_poison_total",
			"Records of the click log that were set aside because they cannot be ingested.",
			clicks.Poison),
	}
}

// redirectNumbers returns the metrics of requests for short URLs.
func (a *app) redirectNumbers() (all []number) {
	for status, answers := range a.redirects.Answers() {
		all = append(all, counter("linkforge_redirects_total", "Requests for short URLs, by status code.",
			answers).
			By("status", strconv.Itoa(status)))
	}
	for reason, refused := range map[string]int64{
		"link": a.redirects.LinkRate.Refused(), "unknown": a.redirects.UnknownCodes.Refused(),
	} {
		all = append(all, counter("linkforge_redirects_throttled_total",
			"Requests for short URLs refused because their network exceeded a rate.", refused).By("reason", reason))
	}
	return all
}

// jobNumbers returns the metrics of the jobs. Their label is "name", because Prometheus sets "job".
func (a *app) jobNumbers() (all []number) {
	for _, job := range a.jobs.Stats() {
		all = append(all,
			gauge("linkforge_job_interval_seconds", "Interval between two runs of a job over all nodes.",
				job.Every.Seconds()).By("name", job.Name),
			counter("linkforge_job_failures_total", "Failed runs of a job on this node.", job.Failures).
				By("name", job.Name),
			gauge("linkforge_job_last_success_timestamp_seconds",
				"Time of the last successful run of a job on this node, else the time when the node started.",
				seconds(job.LastSuccess)).By("name", job.Name))
	}
	return all
}

// operations returns the metrics of GraphQL. Kinds and codes are a fixed set.
func (a *app) operations() (all []number) {
	answered := a.endpoint.Stats()
	for kind, outcomes := range answered.Outcomes {
		for code, n := range outcomes {
			all = append(all, counter("linkforge_graphql_operations_total",
				"GraphQL operations, by kind and result code.", n).
				By("kind", kind).By("code", code))
		}
		all = append(all, histogram("linkforge_graphql_operation_seconds", "Duration of GraphQL operations.",
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

// certificateEnd is when the first certificate of the server ends.
func (a *app) certificateEnd() float64 {
	if a.certificates == nil {
		return 0
	}
	return seconds(a.certificates.End())
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
