package main

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/obs"
)

// scrapeDeadline bounds what a scrape waits for.
const scrapeDeadline = time.Second

// numbers is every metric of this node but the runtime's and the process's: its name, what it says, what it is now. Each
// is in the table of docs/OPERATIONS.md.
func (a *app) numbers(ctx context.Context) []obs.Number {
	return []obs.Number{
		obs.Gauge("linkforge_build_info", "Which version the node runs: always 1.", 1).By("version", version()),
		obs.Gauge("linkforge_redis_up", "Whether Redis answers this node: 1 or 0.", a.redisUp(ctx)),
	}
}

// redisUp asks Redis. No answer in time is none.
func (a *app) redisUp(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, scrapeDeadline)
	defer cancel()
	if a.kv.Ready(ctx) != nil {
		return 0
	}
	return 1
}
