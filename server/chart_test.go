package main

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/stores"
)

// Tests of the Helm chart: they hold the golden files, which scripts/chart renders, against the server.

// chartFolder is the chart, from deployFolder.
const chartFolder = "../../deploy/helm/linkforge"

// kubernetesObject is what these tests read of Kubernetes' objects.
type kubernetesObject struct {
	Spec struct {
		Containers []container
		Template   struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
	}
}

type container struct {
	Name, Image string
	Args        []string
	From        []any `yaml:"envFrom"`
	Env         []struct{ Name, Value string }
	Ports       []struct {
		Name string
		Port string `yaml:"containerPort"`
	}
	Startup   podProbe `yaml:"startupProbe"`
	Liveness  podProbe `yaml:"livenessProbe"`
	Readiness podProbe `yaml:"readinessProbe"`
}

type podProbe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// chartRelease is a golden file of the chart: the node that it runs, and the containers by their names.
type chartRelease struct {
	node
	containers map[string]container
}

// chartReleases returns the releases of the golden files, by the names of the files without ".golden.yaml".
func chartReleases(t *testing.T) map[string]chartRelease {
	t.Helper()
	files := must.Value(filepath.Glob(filepath.Join(deployFolder, chartFolder, "ci", "*.golden.yaml")))(t)
	if len(files) < 6 {
		t.Fatalf("%d golden files", len(files))
	}
	all := map[string]chartRelease{}
	for _, file := range files {
		name := filepath.Base(file)
		r := chartRelease{node: node{env: map[string]string{}}, containers: map[string]container{}}
		for _, o := range documents[kubernetesObject](t, filepath.Join(chartFolder, "ci", name)) {
			for _, c := range slices.Concat(o.Spec.Containers, o.Spec.Template.Spec.Containers) {
				r.containers[c.Name] = c
				if c.Name == "linkforge" {
					r.stop = time.Duration(o.Spec.Template.Spec.Grace) * time.Second
				}
			}
		}
		c := r.containers["linkforge"]
		if len(c.From) > 0 {
			maps.Copy(r.env, deploySecrets)
		}
		variable := regexp.MustCompile(`LINKFORGE_[A-Z_]+`)
		r.names = variable.FindAllString(deployed(t, filepath.Join(chartFolder, "values.yaml")), -1)
		for _, v := range c.Env {
			r.names = append(r.names, v.Name)
			if v.Value != "" { // others are from secrets
				r.env[v.Name] = strings.ReplaceAll(v.Value, "$(BUILTIN_PASSWORD)", "x")
			}
		}
		if r.env["LINKFORGE_SSO_ISSUER"] != "" {
			r.env["LINKFORGE_SSO_CLIENT_SECRET"] = "x" // another key of the Secret
		}
		all[strings.TrimSuffix(name, ".golden.yaml")] = r
	}
	return all
}

// TestChart_ConfiguresNodes: the server accepts the settings of each golden file, has time to stop, and migrates the
// database unless a hook does.
func TestChart_ConfiguresNodes(t *testing.T) {
	t.Parallel()
	for name, r := range chartReleases(t) {
		c := must.Value(config.Parse(r.env, stores.Checks))(t)
		if c.Development || c.Listen != ":8080" || c.AdminListen != ":8081" || c.DataDir != "/data" || !c.RateLimits ||
			c.Embedded() != (name == "sqlite") || (c.RedisURL == "") != (name == "sqlite") {
			t.Errorf("%s: it is no node in production: %+v", name, c)
		}
		if least := c.DrainDelay + longestStop; r.stop < least || c.DrainDelay < shortestDrain {
			t.Errorf("%s: it is killed after %s, may take %s, and drains for %s", name, r.stop, least, c.DrainDelay)
		}
		if _, hook := r.containers["migration"]; hook == c.Migrate {
			t.Errorf("%s: the hook migrates: %t, the server migrates: %t", name, hook, c.Migrate)
		}
		for _, host := range []string{"linkforge.linkforge.svc", "cell-1.linkforge.svc.cluster.local"} {
			if is := strings.HasPrefix(host, "cell-1") == (name == "cell"); c.IsOwnHost(host) != is {
				t.Errorf("%s: %s is a host of the instance: %t", name, host, !is)
			}
		}
		same(t, name+": ports", fmt.Sprint(r.containers["linkforge"].Ports), "[{http 8080} {admin 8081}]")
	}
}

// TestChart_RequestsExistingRoutes runs the commands of the pods, and requests their probes.
func TestChart_RequestsExistingRoutes(t *testing.T) {
	t.Parallel()
	admin := proctest.FreeAddress()
	s := start(t, embedded(t), "LINKFORGE_ADMIN_LISTEN="+admin)
	operator := &server{address: admin, http: newClient()}
	defer operator.http.CloseIdleConnections()
	for name, r := range chartReleases(t) {
		c := r.containers["linkforge"]
		probes := []podProbe{c.Startup, c.Liveness, c.Readiness}
		same(t, name+": probes", fmt.Sprint(probes), "[{{/livez admin}} {{/livez admin}} {{/readyz/redis admin}}]")
		for _, p := range probes {
			operator.expect(t, http.StatusOK, "GET", p.Get.Path)
		}
		same(t, name+": arguments", c.Args, []string{"serve"})
		if hook, ok := r.containers["migration"]; ok {
			succeed(t, []string{"LINKFORGE_DATA_DIR=" + t.TempDir()}, hook.Args...)
		}
		var check []string
		for _, arg := range r.containers["test"].Args {
			arg = regexp.MustCompile(`=[a-z0-9-]+-nodes:8081$`).ReplaceAllString(arg, "="+admin)
			check = append(check, regexp.MustCompile(`=[a-z0-9-]+:80$`).ReplaceAllString(arg, "="+s.address))
		}
		same(t, name+": helm test", succeed(t, nil, check...), "ready\n")
	}
}

// TestChart_RunsDatabasesOfCompose compares the images of the databases for evaluation.
func TestChart_RunsDatabasesOfCompose(t *testing.T) {
	t.Parallel()
	composed, builtin := documents[composition](t, "../../docker-compose.yml")[0].Services, chartReleases(t)["builtin"]
	same(t, "PostgreSQL", builtin.containers["postgresql"].Image, composed["postgres"].Image)
	same(t, "Redis", builtin.containers["redis"].Image, composed["redis"].Image)
}
