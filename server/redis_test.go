package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestRedis_WithoutWritesIsReported: Redis becomes a replica and has no memory left, and still
// answers PING. /readyz has the reason, and wrong passwords stay limited.
func TestRedis_WithoutWritesIsReported(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		redis := dbtest.NewRedisServer(t)
		b.fails, b.env = true, append(b.env, "LINKFORGE_REDIS_URL="+redis.URL)
		s := start(t, b, "LINKFORGE_RATE_LIMITS=on")
		for name, c := range map[string]struct{ begin, end string }{
			"READONLY": {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
			"OOM":      {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		} {
			who := s.tenant(t, strings.ToLower(name))
			who.password = "a wrong guess"
			redis.Do(t, c.begin)
			limited := 0
			for range 12 {
				if err := who.logIn(); err == nil || strings.Contains(err.Error(), "Too many attempts") {
					limited++
				}
			}
			if limited != 2 {
				t.Errorf("%s: %d of 12 wrong passwords are refused as too many, want 2", name, limited)
			}
			polltest.Until(t, "/readyz names "+name, func() bool { // a slow probe finds no answer
				a, err := s.get("/readyz")
				return err == nil && a.status == http.StatusOK && strings.HasPrefix(a.body, "ready; Redis ") &&
					strings.Contains(a.body, name)
			})
			redis.Do(t, c.end)
			polltest.Until(t, "/readyz reports Redis no more", func() bool {
				a, err := s.get("/readyz")
				return err == nil && a.body == "ready\n"
			})
		}
	})
}

// TestRedis_RefusesANodeOfACluster: the URL of one server leads to a node of a cluster.
func TestRedis_RefusesANodeOfACluster(t *testing.T) {
	t.Parallel()
	one, _, _ := strings.Cut(strings.Replace(dbtest.ClusterURL(t), "redis+cluster", "redis", 1), ",")
	said := failing(t, "LINKFORGE_DATA_DIR="+t.TempDir(), "LINKFORGE_LISTEN=127.0.0.1:0", "LINKFORGE_REDIS_URL="+one)
	if !strings.Contains(said, "redis+cluster://") || strings.Contains(said, one) {
		t.Errorf("the server says %q", said)
	}
}
