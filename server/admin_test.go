package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/stores"
)

func TestAdmin_ServesOperatorRoutes(t *testing.T) {
	t.Parallel()
	c := must.Value(config.Parse(map[string]string{
		"LINKFORGE_DATA_DIR": t.TempDir(), "LINKFORGE_ADMIN_LISTEN": proctest.FreeAddress(),
	}, stores.Checks))(t)
	a := must.Value(newApp(t.Context(), c, slog.New(slog.DiscardHandler), io.Discard))(t)
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("routes", func(t *testing.T) { testAdminRoutes(t, a) })
	t.Run("metrics", func(t *testing.T) { testMetrics(t, a) })
	t.Run("nothing of it is public", func(t *testing.T) { testAdminIsNotPublic(t, a) })
	t.Run("runs", func(t *testing.T) { testRunAdmin(t, a) })
	t.Run("Redis is away", func(t *testing.T) { testRedisIsAway(t, a) })
}

// request sends a request to a handler.
func request(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func testAdminRoutes(t *testing.T, a *app) {
	admin := a.adminRoutes(t.Context())
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/livez", "alive\n", http.StatusOK},
		{"GET", "/readyz", "ready\n", http.StatusOK},
		{"GET", "/readyz/redis", "ready\n", http.StatusOK},
		{"GET", "/metrics", "\nlinkforge_build_info{version=\"" + cli.Version() + "\"} 1\n", http.StatusOK},
		{"GET", "/debug/pprof/", "goroutine", http.StatusOK},
		{"GET", "/debug/pprof/goroutine?debug=1", "goroutine profile: total ", http.StatusOK},
		{"GET", "/debug/pprof/trace?seconds=0.01", "go 1.", http.StatusOK},
		{"GET", "/debug/pprof/profile?seconds=nothing&debug=0", "", http.StatusOK}, // cut short below
		{"GET", "/debug/pprof/symbol", "num_symbols: 1", http.StatusOK},
		{"POST", "/debug/pprof/symbol", "num_symbols: 1", http.StatusOK},
		{"GET", "/debug/pprof/cmdline", "Unknown profile", http.StatusNotFound},
		{"POST", "/metrics", "", http.StatusMethodNotAllowed},
		{"GET", "/graphql", "", http.StatusNotFound},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(c.path, "/profile") {
			cancel() // else it takes half a minute
		}
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequestWithContext(ctx, c.method, c.path, nil))
		cancel()
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: status %d, %.300q", c.method, c.path, w.Code, w.Body)
		}
	}
	if blocked := request(admin, "GET", "/debug/pprof/block?debug=1").Body.String(); strings.Contains(blocked, "@") {
		t.Errorf("blocking is recorded: %s", blocked)
	}
	if rate := runtime.SetMutexProfileFraction(-1); rate != 0 {
		t.Errorf("one in %d mutex contentions is recorded", rate)
	}
}

// labels are the allowed labels of metrics. Each has few values, which are known in advance.
var labels = []string{"code", "kind", "name", "reason", "status", "version"}

// testMetrics compares the metrics with docs/OPERATIONS.md.
func testMetrics(t *testing.T, a *app) {
	w := request(a.adminRoutes(t.Context()), "GET", "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := must.Value(parser.TextToMetricFamilies(w.Body))(t)
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			delete(families, name)
		}
	}
	shown := map[string]bool{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var names []string
			for _, l := range m.GetLabel() {
				if names = append(names, l.GetName()); !slices.Contains(labels, l.GetName()) {
					t.Errorf("%s has the label %s, which is none of %v", name, l.GetName(), labels)
				}
			}
			if len(names) > 0 {
				name = family.GetName() + "{" + strings.Join(names, ",") + "}"
			}
			shown[name] = true
		}
	}
	var documented []string // with the labels
	for _, row := range regexp.MustCompile("(?m)^\\| `(linkforge_[^`]+)` \\|").
		FindAllStringSubmatch(readFile(t, "../docs/OPERATIONS.md"), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	same(t, "the metrics", slices.Sorted(maps.Keys(shown)), documented)
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("names and helps: %v, %v", problems, err)
	}
}

func testAdminIsNotPublic(t *testing.T, a *app) {
	public := a.routes()
	for _, host := range []string{"localhost:8080", "127.0.0.1", "links.example.com"} {
		for _, path := range []string{"/metrics", "/debug/pprof", "/debug/pprof/", "/debug/pprof/goroutine?debug=1",
			"/debug/pprof/profile", "/debug/vars"} {
			w := request(public, "GET", "http://"+host+path)
			if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "goroutine") {
				t.Errorf("%s%s: status %d, %.300s", host, path, w.Code, w.Body)
			}
		}
	}
}

// testRunAdmin ends it in the middle of a profile, which is answered with what there is.
func testRunAdmin(t *testing.T, a *app) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended, profiled := make(chan error, 1), make(chan error, 1)
	go func() { ended <- a.runAdmin(ctx) }()
	client := http.Client{Timeout: patience, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	get := func(path string) error {
		response, err := client.Get("http://" + a.config.AdminListen + path)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		return err
	}
	polltest.Until(t, "the metrics are shown", func() bool { return get("/metrics") == nil })
	if err := a.runAdmin(ctx); !errors.Is(err, errInUse(t, a.config.AdminListen)) ||
		!strings.Contains(err.Error(), "LINKFORGE_ADMIN_LISTEN") {
		t.Errorf("an address in use: %v", err)
	}
	go func() { profiled <- get("/debug/pprof/profile?seconds=3600") }()
	polltest.Until(t, "a profile is being taken", func() bool {
		return strings.Contains(request(a.adminRoutes(ctx), "GET", "/debug/pprof/goroutine?debug=2").Body.String(),
			"net/http/pprof.Profile(")
	})
	began := time.Now()
	stop()
	for what, c := range map[string]chan error{"the profile": profiled, "runAdmin": ended} {
		if err := <-c; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if took := time.Since(began); took > adminDrain {
		t.Errorf("ending took %s", took)
	}
	if err := (&app{}).runAdmin(t.Context()); err != nil {
		t.Errorf("without an address: %v", err)
	}
}

// errInUse returns the system's error for an address in use.
func errInUse(t *testing.T, address string) error {
	t.Helper()
	_, err := net.Listen("tcp", address)
	refused, ok := errors.AsType[*os.SyscallError](err)
	if !ok {
		t.Fatalf("a server listens at %s: %v", address, err)
	}
	return refused.Err
}

func testRedisIsAway(t *testing.T, a *app) {
	admin := a.adminRoutes(t.Context())
	up := func() string {
		_, line, _ := strings.Cut(request(admin, "GET", "/metrics").Body.String(), "\nlinkforge_redis_up ")
		return line[:min(2, len(line))]
	}
	same(t, "Redis is there, and up", up(), "1\n")
	unreachable := must.Value(redisx.Open("redis://"+proctest.FreeAddress(), 1))(t)
	defer unreachable.Close()
	defer func(there *redisx.Client) { a.kv = there }(a.kv)
	a.kv = unreachable
	same(t, "Redis is away, and up", up(), "0\n")
}
