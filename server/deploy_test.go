package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/stores"
)

// Tests of docs/deploy: its settings, URLs and metrics exist.

const (
	deployFolder = "../docs/deploy"
	// packageFolder has what the packages install, below deployFolder.
	packageFolder = "../../deploy/package/"
)

// longestStop is how long a node may take after LINKFORGE_DRAIN_DELAY: requests, clicks, spans, and
// some more.
const longestStop = drainDeadline + 30*time.Second

// shortestDrain is the shortest LINKFORGE_DRAIN_DELAY without a failed request of a rolling restart
// under load.
const shortestDrain = 3 * time.Second

// deployed is a file of docs/deploy, or another by its path from there.
func deployed(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(deployFolder, name))
}

// documents reads every document of a YAML file.
func documents[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(deployed(t, name)))
	for {
		var d T
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.NoError(t, err)
		all = append(all, d)
	}
}

// variables returns the environment variables that the server reads, and whether each has a default.
func variables() map[string]bool {
	all := map[string]bool{}
	for field := range reflect.TypeOf(config.NewFlags(nil, stores.Checks).Grammar()).Elem().Fields() {
		all[field.Tag.Get("env")] = field.Tag.Get("default") != "" || field.Tag.Get("development") != ""
	}
	return all
}

// TestDeploy_SetsEverySetting: the files of Compose pass on every setting, the others name those without a default.
func TestDeploy_SetsEverySetting(t *testing.T) {
	t.Parallel()
	nodes := deployedNodes(t)
	for _, name := range slices.Sorted(maps.Keys(variables())) {
		for file, n := range nodes {
			isSet, isCompose := slices.Contains(n.names, name), strings.Contains(file, "compose")
			switch {
			case name == "LINKFORGE_OUTBOUND_ALLOW": // refused in production
				if isSet {
					t.Errorf("%s: nodes do not start with %s", file, name)
				}
			case isSet, !isCompose && variables()[name]:
			case name == "LINKFORGE_DATABASE_STATEMENT_TIMEOUT" && !isCompose: // follows from another setting
			case (strings.HasPrefix(name, "LINKFORGE_TLS_") || strings.HasPrefix(name, "LINKFORGE_ACME_")) &&
				!isCompose: // the proxy terminates TLS
			case slices.Contains([]string{"LINKFORGE_LISTEN", "LINKFORGE_DATA_DIR", "LINKFORGE_NEW_DATABASE"}, name) &&
				isCompose: // properties of the container
			default:
				t.Errorf("%s: %s cannot be set", file, name)
			}
		}
	}
}

func TestDeploy_NamesExistingVariables(t *testing.T) {
	t.Parallel()
	known, variable := variables(), regexp.MustCompile(`LINKFORGE_[A-Z_]+`)
	known["LINKFORGE_API_KEY"] = false // of clients
	files := 0
	for _, root := range []string{deployFolder, "../deploy", "../docker-compose.yml", "../scripts/tools/image"} {
		must.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			for _, name := range variable.FindAllString(readFile(t, path), -1) {
				if _, ok := known[name]; !ok {
					t.Errorf("%s: there is no %s", path, name)
				}
			}
			return nil
		}))
	}
	if files < 12 {
		t.Errorf("%d files", files)
	}
}

// node is how a file of docs/deploy runs a node: its environment, the names of the variables that can be set without
// a change of the file's structure, and how long it may take to stop.
type node struct {
	env   map[string]string
	names []string
	stop  time.Duration
}

// deploySecrets are what no file holds.
var deploySecrets = map[string]string{
	"SHORT_HOST": "sho.rt", "POSTGRES_PASSWORD": "x", "LINKFORGE_JWT_SECRET": jwtSecret,
	"LINKFORGE_CODE_SECRET": codeSecret, "LINKFORGE_ENCRYPTION_KEY": encryptionKey,
	"LINKFORGE_DATABASE_URL": "postgres://x", "LINKFORGE_REDIS_URL": "rediss://x",
	"LINKFORGE_SMTP_URL": "smtps://mail.example", "LINKFORGE_MAIL_FROM": "no-reply@sho.rt",
}

// service is one of Compose's.
type service struct {
	Image       string
	Environment map[string]*string
	Stop        string `yaml:"stop_grace_period"`
}

type composition struct{ Services map[string]service }

// composed are the nodes of docs/deploy/compose.yml, which add to the one of docker-compose.yml.
func composed(t *testing.T) map[string]node {
	t.Helper()
	base := documents[composition](t, "../../docker-compose.yml")[0].Services["server"]
	compose := func(env map[string]*string, stop string) node {
		return node{env: substituted(env), names: slices.Collect(maps.Keys(env)), stop: period(t, stop)}
	}
	all := map[string]node{"docker-compose.yml": compose(base.Environment, base.Stop)}
	for name, s := range documents[composition](t, "compose.yml")[0].Services {
		if strings.HasPrefix(name, "node") {
			env := maps.Clone(base.Environment)
			maps.Copy(env, s.Environment)
			all["compose.yml: "+name] = compose(env, s.Stop)
		}
	}
	return all
}

// substituted sets the values that Compose would. Variables without a value are passed on only if
// they are set.
func substituted(env map[string]*string) map[string]string {
	reference := regexp.MustCompile(`\$\{(\w+)(:-([^}]*)|:\?[^}]*)?\}`)
	all := map[string]string{}
	for name, value := range env {
		if secret, ok := deploySecrets[name]; ok && value == nil {
			all[name] = secret
		} else if value != nil {
			all[name] = reference.ReplaceAllStringFunc(*value, func(text string) string {
				part := reference.FindStringSubmatch(text)
				if secret, ok := deploySecrets[part[1]]; ok {
					return secret
				}
				return part[3]
			})
		}
	}
	return all
}

func period(t *testing.T, text string) time.Duration {
	t.Helper()
	return must.Value(time.ParseDuration(text))(t)
}

// unit is linkforge.service with its file of variables: as the packages install it, or for several
// machines, with the variables in comments too.
func unit(t *testing.T, several bool) node {
	t.Helper()
	text, n := deployed(t, packageFolder+"linkforge.service"), node{env: map[string]string{}}
	n.stop = period(t, regexp.MustCompile(`(?m)^TimeoutStopSec=(.+)$`).FindStringSubmatch(text)[1])
	for line := range strings.Lines(deployed(t, packageFolder+"linkforge.env")) {
		if several {
			line = strings.TrimPrefix(line, "#")
		}
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "LINKFORGE_") {
			n.env[name], n.names = strings.Trim(value, `"`), append(n.names, name)
		}
	}
	for _, secret := range []string{"LINKFORGE_JWT_SECRET", "LINKFORGE_CODE_SECRET", "LINKFORGE_ENCRYPTION_KEY",
		"LINKFORGE_SMTP_URL"} {
		if n.env[secret] != "" {
			t.Errorf("%s has a value that everybody would have", secret)
		}
		if several {
			n.env[secret] = deploySecrets[secret]
		}
	}
	return n
}

// deployedNodes returns the nodes of all files.
func deployedNodes(t *testing.T) map[string]node {
	t.Helper()
	nodes := composed(t)
	nodes["linkforge.service"] = unit(t, true)
	nodes["production.golden.yaml"] = chartReleases(t)["production"].node
	if len(nodes) != 5 {
		t.Fatalf("%d nodes", len(nodes))
	}
	return nodes
}

func TestDeploy_ConfiguresNodes(t *testing.T) {
	t.Parallel()
	for name, n := range deployedNodes(t) {
		c := must.Value(config.Parse(n.env, stores.Checks))(t)
		if c.Development || c.Embedded() || c.RedisURL == "" || c.Listen != ":8080" || !c.RateLimits {
			t.Errorf("%s: it is no node in production: %+v", name, c)
		}
		if c.EncryptionKey == nil || c.SMTPURL == "" || c.MailFrom == "" {
			t.Errorf("%s: it cannot create webhooks or send mail", name)
		}
		if least := c.DrainDelay + longestStop; n.stop < least || c.DrainDelay < shortestDrain {
			t.Errorf("%s: it is killed after %s, may take %s, and drains for %s", name, n.stop, least, c.DrainDelay)
		}
		if name != "docker-compose.yml" && (len(c.TrustedProxies) == 0 || c.AdminListen == "") {
			t.Errorf("%s: no trusted proxies or admin listener: %+v", name, c)
		}
	}
}

// TestDeploy_PackageStartsAnInstance: without a change of its variables, the service is an instance in
// production whose data is in the folder that the unit creates.
func TestDeploy_PackageStartsAnInstance(t *testing.T) {
	t.Parallel()
	n, text := unit(t, false), deployed(t, packageFolder+"linkforge.service")
	c := must.Value(config.Parse(n.env, stores.Checks))(t)
	folder := regexp.MustCompile(`(?m)^StateDirectory=(.+)$`).FindStringSubmatch(text)[1]
	if c.Development || !c.Embedded() || c.DataDir != "/var/lib/"+folder || c.Listen != ":8080" {
		t.Errorf("%+v", c)
	}
	if least := c.DrainDelay + longestStop; n.stop < least {
		t.Errorf("it is killed after %s, and may take %s", n.stop, least)
	}
}

// TestDeploy_RequestsExistingRoutes: probes, health checks and questions lead to paths and ports of the
// server.
func TestDeploy_RequestsExistingRoutes(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	matches := func(file, pattern string) [][]string {
		return regexp.MustCompile(pattern).FindAllStringSubmatch(deployed(t, file), -1)
	}
	for file, pattern := range map[string]string{"Caddyfile": `health_uri (\S+)`,
		"haproxy.cfg": `http-check .* uri (\S+)`, "haproxy-tcp.cfg": `http-check .* uri (\S+)`} {
		if found := matches(file, pattern); len(found) != 1 || found[0][1] != "/readyz/redis" {
			t.Errorf("%s: got readiness probes %v, want /readyz/redis", file, found)
		}
	}
	s.expect(t, http.StatusOK, "GET", "/readyz/redis")
	asked := matches("Caddyfile", `ask http://localhost:2080(\S+)`)[0][1]
	if a := s.expect(t, http.StatusNotFound, "GET", asked+"?domain=unknown.example"); !strings.Contains(a.body,
		"Short links do not work on this host") {
		t.Errorf("Caddy requests %s, which returns %q", asked, a.body)
	}
	for file, pattern := range map[string]string{
		"Caddyfile": `node\d:(\d+)`, "nginx.conf": `server 10\.0\.0\.1\d:(\d+)`,
		"haproxy.cfg":     `server node\d 10\.0\.0\.1\d:(\d+)`,
		"haproxy-tcp.cfg": `server node\d 10\.0\.0\.1\d:(\d+)`, "prometheus/prometheus.yml": `node\d:(808)1`,
	} {
		found := matches(file, pattern)
		if len(found) == 0 || len(found)%2 != 0 || slices.ContainsFunc(found, func(node []string) bool {
			return !strings.HasPrefix("8080", node[1]) || node[1] != found[0][1]
		}) {
			t.Errorf("%s leads to %v, and not to two nodes", file, found)
		}
	}
}

// rule is an alert of rules.yml.
type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations struct {
		Summary string
		Runbook string `yaml:"runbook_url"`
	}
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	type file struct{ Groups []struct{ Rules []rule } }
	for _, g := range documents[file](t, "prometheus/rules.yml")[0].Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// shownMetrics are the names that a server shows, with the labels of each. A histogram has three
// names.
func shownMetrics(t *testing.T, address string) map[string][]string {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := must.Value(parser.TextToMetricFamilies(strings.NewReader(scrape(t, address))))(t)
	all := map[string][]string{"up": {"instance", "job"}} // Prometheus' own
	for name, family := range families {
		labels := []string{"instance", "job"}
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		all[name] = labels
		if family.GetMetric()[0].GetHistogram() != nil {
			all[name+"_count"], all[name+"_sum"], all[name+"_bucket"] = labels, labels, append(slices.Clip(labels),
				"le")
		}
	}
	return all
}

var (
	metricName   = regexp.MustCompile(`\b(linkforge_\w+|go_\w+|process_\w+|up)\b(?:\{([^}]*)\})?`)
	matchedLabel = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	groupedBy    = regexp.MustCompile(`\b(?:by|on|group_left) \(([^)]*)\)`)
)

// unknown are the metrics and labels of an expression that no server shows.
func unknown(expression string, shown map[string][]string) (missing []string) {
	var labels []string
	for _, m := range metricName.FindAllStringSubmatch(expression, -1) {
		has, ok := shown[m[1]]
		if !ok {
			missing = append(missing, m[1])
		}
		labels = append(labels, has...)
		for _, l := range matchedLabel.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(has, l[1]) {
				missing = append(missing, m[1]+"{"+l[1]+"}")
			}
		}
	}
	for _, g := range groupedBy.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) {
				missing = append(missing, "by ("+label+")")
			}
		}
	}
	if len(labels) == 0 {
		missing = append(missing, "any metric")
	}
	return missing
}

// TestDeploy_WatchesExistingMetrics: alerts and the dashboard use metrics and labels that a server
// reports from its start on.
func TestDeploy_WatchesExistingMetrics(t *testing.T) {
	t.Parallel()
	admin := proctest.FreeAddress()
	s := start(t, embedded(t), "LINKFORGE_ADMIN_LISTEN="+admin)
	s.tenant(t, "watched") // kinds and codes are shown once there were operations
	client{server: s}.ask(t, `{ __typename }`, nil)
	shown := shownMetrics(t, admin)
	expressions := panelExpressions(t)
	if len(expressions) < 30 {
		t.Errorf("the dashboard has %d expressions", len(expressions))
	}
	for _, r := range rules(t) {
		expressions = append(expressions, r.Expr)
	}
	for _, e := range expressions {
		if missing := unknown(e, shown); len(missing) > 0 {
			t.Errorf("unknown metrics %v: %s", missing, e)
		}
	}
	for _, e := range []string{"linkforge_no_such > 1", `linkforge_ready{code="x"}`, "sum by (code) (linkforge_ready)",
		"1"} {
		if len(unknown(e, shown)) == 0 {
			t.Errorf("nothing is missing in %s", e)
		}
	}
}

func panelExpressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	must.NoError(t, json.Unmarshal([]byte(deployed(t, "grafana/dashboard.json")), &dashboard))
	for _, p := range dashboard.Panels {
		if p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %q lies at %+v", p.Title, p.GridPos)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// TestDeploy_AlertsHaveRunbookEntries: each has its section in docs/OPERATIONS.md and its test, and none
// of these is about another.
func TestDeploy_AlertsHaveRunbookEntries(t *testing.T) {
	t.Parallel()
	var alerts []string
	for _, r := range rules(t) {
		alerts = append(alerts, r.Alert)
		anchor := "https://github.com/linkforge/linkforge/blob/main/docs/OPERATIONS.md#" + strings.ToLower(r.Alert)
		if r.Annotations.Runbook != anchor || r.Annotations.Summary == "" ||
			!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%+v", r)
		}
	}
	for what, pattern := range map[string]string{"../OPERATIONS.md": `(?m)^### (Linkforge\w+)$`,
		"prometheus/rules_test.yml": `(?m)^  - name: (\w+)$`} {
		var named []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(deployed(t, what), -1) {
			named = append(named, m[1])
		}
		if diff := cmp.Diff(alerts, named); diff != "" {
			t.Errorf("the alerts of %s (-rules.yml +it):\n%s", what, diff)
		}
	}
}

// TestDeploy_ProgramsAcceptTheirFiles validates the files by their programs, if installed.
func TestDeploy_ProgramsAcceptTheirFiles(t *testing.T) {
	t.Parallel()
	proctest.SkipShort(t)
	folder := t.TempDir()
	certificateFile, keyFile := filepath.Join(folder, "sho.rt.crt"), filepath.Join(folder, "sho.rt.key")
	certify(t, certificateFile, keyFile, 1)
	put := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	// The files say where things are on another machine.
	pair := put("sho.rt.pem", readFile(t, certificateFile)+readFile(t, keyFile))
	here := func(name string, places ...string) string {
		return put(filepath.Base(name), strings.NewReplacer(places...).Replace(deployed(t, name)))
	}
	nginx := here("nginx.conf", "/etc/nginx/tls", folder, "http {",
		"http { access_log off; client_body_temp_path "+folder+"/a; proxy_temp_path "+folder+
			"/b; fastcgi_temp_path "+folder+"/c; uwsgi_temp_path "+folder+"/d; scgi_temp_path "+folder+"/e;")
	for _, command := range [][]string{
		{"systemd-analyze", "verify", "--man=no",
			here(packageFolder+"linkforge.service", "/usr/libexec/linkforge/linkforge", os.Args[0])},
		{"nginx", "-t", "-e", "stderr", "-g", "pid " + folder + "/pid;", "-c", nginx},
		{"haproxy", "-c", "-f", here("haproxy.cfg", "/etc/haproxy/tls/sho.rt.pem", pair)},
		{"haproxy", "-c", "-f", here("haproxy-tcp.cfg")},
		{"caddy", "validate", "--adapter", "caddyfile", "--config", here("Caddyfile")},
		{"promtool", "check", "config", filepath.Join(deployFolder, "prometheus", "prometheus.yml")},
		{"promtool", "test", "rules", filepath.Join(deployFolder, "prometheus", "rules_test.yml")},
	} {
		t.Run(strings.Join(command[:2], " "), func(t *testing.T) {
			path, err := exec.LookPath(command[0])
			if err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			p := exec.CommandContext(t.Context(), path, command[1:]...)
			p.Env = append(os.Environ(), "SHORT_HOST=sho.rt", "HOME="+folder, "XDG_DATA_HOME="+folder,
				"XDG_CONFIG_HOME="+folder)
			if out, err := p.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", command, err, out)
			}
		})
	}
}

// scrape returns the metrics of a server.
func scrape(t *testing.T, address string) string {
	t.Helper()
	s := &server{address: address, http: newClient()}
	defer s.http.CloseIdleConnections()
	return s.expect(t, http.StatusOK, http.MethodGet, "/metrics").body
}

// metric is a value that a server shows, of a metric without labels.
func metric(t *testing.T, address, name string) string {
	t.Helper()
	_, line, ok := strings.Cut(scrape(t, address), "\n"+name+" ")
	if !ok {
		t.Fatalf("%s is not shown", name)
	}
	value, _, _ := strings.Cut(line, "\n")
	return value
}
