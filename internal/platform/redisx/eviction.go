package redisx

import (
	"context"
	"regexp"

	"github.com/redis/go-redis/v9"
)

var evictionPolicy = regexp.MustCompile(`(?m)^maxmemory_policy:([\w-]+)`)

// Evicts reports whether Redis, or a master of a cluster, removes keys when its memory is full.
// Rates would begin again then, and signals between nodes be lost. INFO reports it where CONFIG is
// forbidden.
func (c *Client) Evicts(ctx context.Context) (evicts bool, err error) {
	if c.InProcess() {
		return false, nil
	}
	look := func(ctx context.Context, server redis.Cmdable) (bool, error) {
		info, err := server.Info(ctx, "memory").Result()
		policy := evictionPolicy.FindStringSubmatch(info)
		return policy != nil && policy[1] != "noeviction", err
	}
	cluster, ok := c.UniversalClient.(*redis.ClusterClient)
	if !ok {
		return look(ctx, c)
	}
	found := make(chan struct{}, 1)
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		evicts, err := look(ctx, master)
		if evicts {
			select {
			case found <- struct{}{}:
			default:
			}
		}
		return err
	})
	return len(found) > 0, err
}
