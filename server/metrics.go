package main

import (
	"context"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/obs"
)

// scrapeDeadline bounds what a scrape waits for.
const scrapeDeadline = time.Second

// numbers is every metric of this node but the runtime's and the process's: its name, what it says, what it is now. Each
// is in the table of docs/OPERATIONS.md.
func (a *app) numbers(ctx context.Context) []obs.Number {
	cache, leases, clicks, live := a.links.CacheStats(), a.quotas.Hits.Stats(), a.clicks.Stats(), a.watching.Stats()
	all := []obs.Number{
		obs.Gauge("linkforge_build_info", "Which version the node runs: always 1.", 1).By("version", version()),
		obs.Gauge("linkforge_redis_up", "Whether Redis answers this node: 1 or 0.", a.redisUp(ctx)),

		obs.Counter("linkforge_link_cache_hits_total", "Looks into the node's memory that found what they looked for.", cache.Hits),
		obs.Counter("linkforge_link_cache_misses_total", "Looks into the database.", cache.Misses),
		obs.Counter("linkforge_link_cache_evictions_total", "Entries dropped from memory to make room.", cache.Evictions),
		obs.Gauge("linkforge_link_cache_entries", "Entries in the node's memory: links, places and absences.", cache.Entries),
		obs.Gauge("linkforge_link_cache_bytes", "Memory that these take, as the cache weighs them.", cache.Bytes),
		obs.Counter("linkforge_code_collisions_total", "Generated codes that were taken by another URL.", a.links.Collisions()),

		obs.Gauge("linkforge_quota_fallback", "Whether the database counts monthly hits, because Redis is away: 1 or 0.", one(leases.Away)),
		obs.Gauge("linkforge_quota_leases_open", "Leases of monthly hits that the node holds.", leases.Open),
		obs.Counter("linkforge_quota_leases_taken_total", "Leases of monthly hits that the node has taken.", leases.Leases),
		obs.Counter("linkforge_quota_hits_returned_total", "Leased hits that were not used and were given back.", leases.Returned),
		obs.Gauge("linkforge_quota_overshoot_bound", "Hits of this node that could be given twice should Redis lose its counters now.", leases.Held+clicks.Waiting),

		obs.Gauge("linkforge_click_log_lag_clicks", "Clicks in the node's log that the database does not have yet.", clicks.Waiting),
		obs.Gauge("linkforge_click_log_lag_seconds", "Age of the oldest of these, 0 when there are none.", clicks.Lag.Seconds()),
		obs.Gauge("linkforge_click_log_bytes", "Room that the node's log of clicks takes on disk.", clicks.LogBytes),
		obs.Counter("linkforge_clicks_lost_total", "Clicks that were answered and found no room in the log.", clicks.Lost),
		obs.Counter("linkforge_click_ingest_batches_total", "Transactions that have written clicks to the database.", clicks.Batches),
		obs.Counter("linkforge_click_ingested_total", "Clicks that this node has written to the database.", clicks.Ingested),
		obs.Gauge("linkforge_click_subscriptions", "Subscriptions to clicks at this node.", live.Watches),
		obs.Gauge("linkforge_click_subscriptions_lag_seconds", "How long ago the last look for new clicks was, 0 while nobody subscribes.", live.Lag.Seconds()),
		obs.Counter("linkforge_click_poison_total", "Records of the log that were set aside because they cannot be used.", clicks.Poison),
	}
	for status, answers := range a.redirects.Answers() {
		all = append(all, obs.Counter("linkforge_redirects_total", "Short URLs asked for, by the status of the answer.", answers).
			By("status", strconv.Itoa(status)))
	}
	return all
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// redisUp asks Redis. No answer in time is none.
func (a *app) redisUp(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, scrapeDeadline)
	defer cancel()
	return one(a.kv.Ready(ctx) == nil)
}
