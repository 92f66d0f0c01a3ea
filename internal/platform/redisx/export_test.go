package redisx

import "github.com/redis/go-redis/v9"

// OptionsOf returns the options of a client of one server.
func OptionsOf(c *Client) *redis.Options { return c.UniversalClient.(*redis.Client).Options() }
