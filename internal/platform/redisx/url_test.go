package redisx

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// reading is what matters of a URL of several servers.
type reading struct {
	Addrs                              []string
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	MasterName                         string
	DB                                 int
	Cluster, TLS                       bool
}

func TestParseURL_AcceptsSeveralServers(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]reading{
		"redis+cluster://a:7000,b": {Addrs: []string{"a:7000", "b:6379"}, Cluster: true},
		"rediss+cluster://me:p%40ss@[::1]:7000,b:7001": {Addrs: []string{"[::1]:7000", "b:7001"}, Username: "me",
			Password: "p@ss", Cluster: true, TLS: true},
		"redis+sentinel://a:1,b/main": {Addrs: []string{"a:1", "b:26379"}, MasterName: "main"},
		"rediss+sentinel://:p@a/main?db=3&sentinel_user=s&sentinel_password=q": {
			Addrs: []string{"a:26379"}, Password: "p", MasterName: "main", DB: 3, SentinelUsername: "s",
			SentinelPassword: "q", TLS: true,
		},
	} {
		parsed, list, err := parse(u)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		o, err := parseList(parsed, list)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		got := reading{
			o.Addrs,
			o.Username,
			o.Password,
			o.SentinelUsername,
			o.SentinelPassword,
			o.MasterName,
			o.DB,
			o.IsClusterMode,
			o.TLSConfig != nil,
		}
		wanttest.Equal(t, want, got, "%s", u)
	}
}

func TestParseURL_RefusesAndHidesBadURLs(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]error{
		"hunter2":                                                errScheme,
		"s://:hunter2@host":                                      errScheme,
		"redis+mirror://:hunter2@host":                           errScheme,
		"redis://":                                               errForm,
		"redis://:hunter2@host:6379/none":                        errForm,
		"redis://:hunter2/3@host":                                errForm,
		"redis+cluster://":                                       errForm,
		"redis+cluster://:hunter2@a:7000,":                       errHosts,
		"redis+cluster://:hunter2@a:70000":                       errHosts,
		"redis+cluster://:hunter2@a:1/0":                         errPath,
		"redis+cluster://:hunter2@a:1?db=1":                      errUnknown,
		"redis+sentinel://:hunter2@a:1":                          errMaster,
		"redis+sentinel://:hunter2@a:1/m/1":                      errMaster,
		"redis+sentinel://:hunter2@a:1,:2/m":                     errHosts,
		"redis+sentinel://:hunter2@a:1/m?db=-1":                  errNumber,
		"redis+sentinel://a/m?password=hunter2":                  errUnknown,
		"redis+sentinel://a/m?sentinel_password=hunter2&db=%zz":  errUnknown,
		"redis+sentinel://a/m?sentinel_password=hunter2;x=y&z=1": errUnknown,
	} {
		err := Check(u)
		if err != want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %v", u, err, want)
		}
		if k, err := Open(u, 1); err == nil || k != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("opening %s: %v", u, err)
		}
	}
	for _, u := range []string{"", "redis://h", "rediss://:p@h:1/0", "redis://h?dial_timeout=3s",
		"redis+cluster://h/"} {
		must.NoError(t, Check(u))
	}
}

// TestOpen_SetsOptionsForEveryClient: a pool is as large as it says, and deadlines hold.
func TestOpen_SetsOptionsForEveryClient(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "redis://a", "redis+sentinel://a/m", "redis+cluster://a"} {
		k := must.Value(Open(u, 7))(t)
		defer k.Close()
		var got redis.Options
		switch c := k.UniversalClient.(type) {
		case *redis.Client:
			got = *c.Options()
		case *redis.ClusterClient:
			o := c.Options()
			got.PoolSize, got.PipelinePoolSize, got.ContextTimeoutEnabled = o.PoolSize, o.PipelinePoolSize,
				o.ContextTimeoutEnabled
			got.ClientName, got.DialTimeout, got.DialerRetries = o.ClientName, o.DialTimeout, o.DialerRetries
		}
		if got.PoolSize != 7 || got.PipelinePoolSize != noPipelinePool || !got.ContextTimeoutEnabled ||
			got.ClientName != clientName || got.DialTimeout != dialDeadline || got.DialerRetries != dials {
			t.Errorf("%s: %+v", u, got)
		}
		if _, sharded := k.UniversalClient.(*redis.ClusterClient); sharded != strings.Contains(u, "cluster") {
			t.Errorf("%s: sharded is %t", u, sharded)
		}
	}
}
