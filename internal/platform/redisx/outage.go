package redisx

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// outages are the error replies of a server that does not serve commands now, by their first words,
// with the cause and the remedy. Other error replies are faults of the command.
var outages = map[string]string{
	"READONLY":    "is a replica, which is read-only: LINKFORGE_REDIS_URL must lead to the master",
	"MASTERDOWN":  "is a replica without its master: LINKFORGE_REDIS_URL must lead to the master",
	"NOREPLICAS":  "has fewer replicas than min-replicas-to-write, and takes no writes",
	"OOM":         "has used its maxmemory, and takes no writes: raise maxmemory",
	"MISCONF":     "cannot save its data, and takes no writes: its log has the reason; Linkforge needs no persistence",
	"LOADING":     "is loading its data",
	"BUSY":        "is executing a script that does not end",
	"CLUSTERDOWN": "belongs to a cluster that is down",
	"MOVED":       isClusterNode,
	"ASK":         isClusterNode,
	"NOAUTH":      "requires a password: set it in LINKFORGE_REDIS_URL",
	"WRONGPASS":   "refuses the user or the password of LINKFORGE_REDIS_URL",
	"ERR max number of clients": "has as many clients as maxclients permits: raise maxclients, or lower " +
		"LINKFORGE_REDIS_POOL",
}

const isClusterNode = "is a node of a cluster: LINKFORGE_REDIS_URL must start with redis+cluster:// (with TLS, " +
	"rediss+cluster://)"

// ErrClusterNode is the error of Ready if the URL of one server leads to a node of a cluster, which
// refuses the keys of other nodes.
var ErrClusterNode = errors.New("Redis " + isClusterNode)

var errIncomplete = errors.New("the Redis cluster has slots that no node serves")

// Explain returns the cause of an error of Ready, with the remedy if there is a known one. It
// contains no address.
func Explain(err error) string {
	reply, isReply := errors.AsType[redis.Error](err)
	switch {
	case errors.Is(err, ErrClusterNode), errors.Is(err, errIncomplete):
		return err.Error()
	case !isReply:
		return "Redis does not answer"
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	if cause := outageCause(err); cause != "" {
		return "Redis " + cause + " (" + code + ")"
	}
	return "Redis refuses commands (" + code + ")"
}

// outageCause returns the value of outages for an error reply; empty for other errors.
func outageCause(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		for words, cause := range outages {
			if strings.HasPrefix(reply.Error(), words+" ") {
				return cause
			}
		}
	}
	return ""
}

// Ready returns nil if Redis serves writes; a cluster, if every master does and all slots are
// served. While the circuit breaker is open it returns the cause at once.
func (c *Client) Ready(ctx context.Context) error {
	switch {
	case c.InProcess():
		return c.Ping(ctx).Err()
	case c.IsOpen() && ctx.Value(unprotected{}) == nil:
		return *c.guard.cause.Load()
	}
	cluster, ok := c.UniversalClient.(*redis.ClusterClient)
	if !ok {
		info, err := inspect(ctx, c.UniversalClient)
		if err == nil && strings.Contains(info, "cluster_enabled:1") {
			return ErrClusterNode
		}
		return err
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		if _, err := inspect(ctx, master); err != nil {
			return err
		}
		info, err := master.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			return errIncomplete
		}
		return err
	})
}

// writeCheck is a script without flags. A server refuses it for the same reasons as writes,
// although it writes nothing.
const writeCheck = "#!lua\nreturn 1"

// inspect checks that a server serves writes, and returns its report of its cluster: nothing if
// that is forbidden.
func inspect(ctx context.Context, server redis.Cmdable) (info string, err error) {
	pipe := server.Pipeline()
	written, reported := pipe.Eval(ctx, writeCheck, nil), pipe.Info(ctx, "cluster")
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err = written.Err(); redis.HasErrorPrefix(err, "Error compiling") {
		err = nil // a Redis before 7 does not know such scripts
	}
	return reported.Val(), err
}
