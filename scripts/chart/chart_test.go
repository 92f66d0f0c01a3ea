// Package chart_test renders the Helm chart with Helm's own packages, and decodes the
// objects into the types of Kubernetes' API. It is a module of its own, because both are large.
package chart_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

var update = flag.Bool("update", false, "write the golden files")

const folder = "../../deploy/helm/linkforge"

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetOutput(io.Discard) // Helm reports each time that the rules are a symbolic link
	os.Exit(m.Run())
}

// render is helm template, for a release linkforge in a namespace linkforge.
func render(t *testing.T, values chartutil.Values) (*release.Release, error) {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.ClientOnly, install.DryRun = true, true
	install.ReleaseName, install.Namespace = "linkforge", "linkforge"
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.27.0", Major: "1", Minor: "27"}
	return install.RunWithContext(t.Context(), chart, values)
}

// each renders the chart with each file of values in ci.
func each(t *testing.T, test func(t *testing.T, golden string, values chartutil.Values, r *release.Release)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "ci", "*-values.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			values, err := chartutil.ReadValuesFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			test(t, filepath.Join(folder, "ci", name+".golden.yaml"), values, r)
		})
	}
}

// TestChart_RendersGoldenFiles also requires the notes to name the command of the first account.
func TestChart_RendersGoldenFiles(t *testing.T) {
	each(t, func(t *testing.T, golden string, _ chartutil.Values, r *release.Release) {
		text := strings.TrimPrefix(r.Manifest, "\n")
		for _, h := range r.Hooks {
			text += fmt.Sprintf("---\n# Source: %s\n%s\n", h.Path, h.Manifest)
		}
		if *update {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || text != string(want) {
			t.Errorf("%s is not what the chart renders: go test ./... -update (%v)", golden, err)
		}
		if !strings.Contains(r.Info.Notes, "/linkforge users create") {
			t.Errorf("the notes:\n%s", r.Info.Notes)
		}
	})
}

func TestChart_PassesLint(t *testing.T) {
	each(t, func(t *testing.T, _ string, values chartutil.Values, _ *release.Release) {
		result := action.NewLint().Run([]string{folder}, values)
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev {
				t.Error(m)
			}
		}
		if result.TotalChartsLinted != 1 {
			t.Errorf("%d charts: %v", result.TotalChartsLinted, result.Errors)
		}
	})
}

// objects decodes all objects of a release: unknown and repeated fields, and wrong types, are errors.
func objects(t *testing.T, r *release.Release) (all []runtime.Object) {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, gateway.Install} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	texts := slices.Collect(maps.Values(releaseutil.SplitManifests(r.Manifest)))
	for _, h := range r.Hooks {
		texts = append(texts, h.Manifest)
	}
	for _, text := range texts {
		object, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Errorf("%v:\n%s", err, text)
			continue
		}
		all = append(all, object)
	}
	return all
}

// pods returns the pods that objects create, by the names of their first containers.
func pods(all []runtime.Object) map[string]core.PodTemplateSpec {
	found := map[string]core.PodTemplateSpec{}
	for _, object := range all {
		var p core.PodTemplateSpec
		switch o := object.(type) {
		case *apps.StatefulSet:
			p = o.Spec.Template
		case *batch.Job:
			p = o.Spec.Template
		case *core.Pod:
			p = core.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		default:
			continue
		}
		found[p.Spec.Containers[0].Name] = p
	}
	return found
}

// TestChart_ConfinesPods: no pod runs as root, writes to its image, has a capability, or a token.
func TestChart_ConfinesPods(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ chartutil.Values, r *release.Release) {
		for name, p := range pods(objects(t, r)) {
			c := p.Spec.Containers[0]
			pod, confined := p.Spec.SecurityContext, c.SecurityContext
			if len(p.Spec.Containers) != 1 || *p.Spec.AutomountServiceAccountToken || *p.Spec.EnableServiceLinks ||
				!*pod.RunAsNonRoot || *pod.RunAsUser == 0 || *pod.SeccompProfile != (core.SeccompProfile{
				Type: core.SeccompProfileTypeRuntimeDefault,
			}) || !*confined.ReadOnlyRootFilesystem || *confined.AllowPrivilegeEscalation ||
				!slices.Equal(confined.Capabilities.Drop, []core.Capability{"ALL"}) ||
				c.Resources.Requests == nil || c.Resources.Limits == nil {
				t.Errorf("%s is not confined: %+v", name, p.Spec)
			}
		}
	})
}

// selected returns the selector of pods that an object has, if any, and the names of their ports in it.
func selected(object runtime.Object) (selector *meta.LabelSelector, ports []string) {
	switch o := object.(type) {
	case *core.Service:
		return &meta.LabelSelector{MatchLabels: o.Spec.Selector},
			[]string{cmp.Or(o.Spec.Ports[0].TargetPort.StrVal, o.Spec.Ports[0].Name)}
	case *apps.StatefulSet:
		return o.Spec.Selector, nil
	case *policy.PodDisruptionBudget:
		return o.Spec.Selector, nil
	case *network.NetworkPolicy:
		for _, rule := range o.Spec.Ingress {
			for _, p := range rule.Ports {
				ports = append(ports, p.Port.StrVal)
			}
		}
		return &o.Spec.PodSelector, ports
	}
	return nil, nil
}

// TestChart_SelectsItsPods: each selector selects the pods that the name of its object says, and each
// port is one of theirs.
func TestChart_SelectsItsPods(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ chartutil.Values, r *release.Release) {
		all := objects(t, r)
		found := pods(all)
		for _, object := range all {
			selector, ports := selected(object)
			if selector == nil {
				continue
			}
			name, want := object.(meta.Object).GetName(), "linkforge"
			for builtin := range found {
				if strings.HasSuffix(name, "-"+builtin) {
					want = builtin
				}
			}
			s, err := meta.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			for pod, p := range found {
				if s.Matches(labels.Set(p.Labels)) != (pod == want) {
					t.Errorf("%T %s selects %s: %t", object, name, pod, pod != want)
				}
			}
			for _, port := range ports {
				if !slices.ContainsFunc(found[want].Spec.Containers[0].Ports, func(c core.ContainerPort) bool {
					return c.Name == port
				}) {
					t.Errorf("%T %s: %s has no port %q", object, name, want, port)
				}
			}
		}
	})
}

// TestChart_RefusesValues: each message names the value.
func TestChart_RefusesValues(t *testing.T) {
	const secret, proxies = "publicUrl: https://sho.rt\nexistingSecret: linkforge\n",
		"settings: {LINKFORGE_TRUSTED_PROXIES: 10.0.0.0/8}\n"
	for name, c := range map[string]struct {
		values string
		says   []string
	}{
		"a number in words":  {secret + "replicas: many", []string{"/replicas", "integer"}},
		"an unknown value":   {secret + "replica: 3", []string{"'replica' not allowed"}},
		"an unknown field":   {secret + "autoscaling: {max: 3}", []string{"/autoscaling", "'max' not allowed"}},
		"no setting":         {secret + "settings: {LINK_FORGE: x}", []string{"/settings", "LINK_FORGE"}},
		"a list":             {secret + "settings: {LINKFORGE_HOSTS: [a]}", []string{"/settings/LINKFORGE_HOSTS"}},
		"an unknown kind":    {secret + "database: {kind: mysql}", []string{"/database/kind", "builtin"}},
		"a path":             {"publicUrl: https://sho.rt/x", []string{"/publicUrl"}},
		"a wrong size":       {secret + "persistence: {size: 4 GB}", []string{"/persistence/size"}},
		"nothing":            {"{}", []string{"publicUrl is required", "existingSecret is required"}},
		"two pods on SQLite": {secret + "database: {kind: sqlite}", []string{"set replicas to 1"}},
		"scaled SQLite": {secret + "database: {kind: sqlite}\nreplicas: 1\nautoscaling: {enabled: true}",
			[]string{"autoscaling.enabled to false"}},
		"builtin without a secret": {"publicUrl: https://sho.rt\ndatabase: {kind: builtin}",
			[]string{"existingSecret is required"}},
		"a secret": {secret + "settings: {LINKFORGE_JWT_SECRET: x, LINKFORGE_SMTP_URL: y}",
			[]string{"settings.LINKFORGE_JWT_SECRET is a secret", "settings.LINKFORGE_SMTP_URL is a secret"}},
		"a secret in extraEnv": {secret + "extraEnv: [{name: LINKFORGE_JWT_SECRET, value: x}]",
			[]string{"/extraEnv/0", "valueFrom"}},
		"a long drain":    {secret + "drainSeconds: 301", []string{"/drainSeconds", "300"}},
		"a short drain":   {secret + "drainSeconds: 1", []string{"/drainSeconds", "3"}},
		"another drain":   {secret + "settings: {LINKFORGE_DRAIN_DELAY: 5m}", []string{"set drainSeconds"}},
		"a short grace":   {secret + "terminationGracePeriodSeconds: 10", []string{"'terminationGracePeriodSeconds'"}},
		"another address": {secret + "settings: {LINKFORGE_LISTEN: ':80'}", []string{"settings.LINKFORGE_LISTEN"}},
		"an ingress of unknown addresses": {secret + "ingress: {enabled: true}",
			[]string{"settings.LINKFORGE_TRUSTED_PROXIES is required"}},
		"a route without gateway": {secret + proxies + "gateway: {enabled: true}",
			[]string{"gateway.parentRefs is required"}},
		"a maximum below the minimum": {secret + "autoscaling: {enabled: true, maxReplicas: 1}",
			[]string{"autoscaling.maxReplicas"}},
		"two files of countries": {secret + "settings: {LINKFORGE_GEOIP: /x}\ngeoip: {existingClaim: countries}",
			[]string{"geoip.existingClaim and settings.LINKFORGE_GEOIP"}},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := chartutil.ReadValues([]byte(c.values))
			if err != nil {
				t.Fatal(err)
			}
			_, err = render(t, values)
			t.Log(err)
			for _, text := range c.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, without %q", err, text)
				}
			}
		})
	}
}

// TestChart_SchemaHasEachValue: the schema and values.yaml name the same values.
func TestChart_SchemaHasEachValue(t *testing.T) {
	type node struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var compare func(path string, values map[string]any, schema json.RawMessage)
	compare = func(path string, values map[string]any, schema json.RawMessage) {
		var n node
		if err := json.Unmarshal(schema, &n); err != nil {
			t.Fatal(err)
		}
		for name, value := range values {
			part, ok := n.Properties[name]
			if !ok {
				t.Errorf("the schema lacks %s%s", path, name)
			}
			if object, ok := value.(map[string]any); ok && strings.Contains(string(part), `"properties"`) {
				compare(path+name+".", object, part)
			}
		}
		for name := range n.Properties {
			if _, ok := values[name]; !ok && !slices.Contains([]string{"global", "resources.claims"}, path+name) {
				t.Errorf("values.yaml lacks %s%s", path, name)
			}
		}
	}
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	compare("", chart.Values, chart.Schema)
}
