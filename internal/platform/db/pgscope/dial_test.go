package pgscope_test

import (
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestParseConfig_BoundsSilence: an attempt to connect to a server that is silent ends, without a
// deadline of its context, as early as the URL says or soon enough for a recovery within five
// seconds.
func TestParseConfig_BoundsSilence(t *testing.T) {
	t.Parallel()
	listener := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts by itself, and never answers
	defer listener.Close()
	for parameters, want := range map[string]time.Duration{
		"": 4 * time.Second, "&connect_timeout=1": time.Second, "&connect_timeout=90": 90 * time.Second,
	} {
		config := must.Value(pgscope.ParseConfig("postgres://a:b@" + listener.Addr().String() + "/c?sslmode=disable" +
			parameters))(t)
		if config.ConnectTimeout != want {
			t.Errorf("%q: %s, want %s", parameters, config.ConnectTimeout, want)
		}
	}
	config := must.Value(pgscope.ParseConfig("postgres://a:b@" + listener.Addr().String() +
		"/c?sslmode=disable&connect_timeout=1"))(t)
	if _, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		t.Error("connected to a silent server")
	}
}
