// Command routing measures the overhead of routing: redirects of plain links against those of an
// earlier version, redirects of links with ten rules against plain ones, and redirects during wrong
// passwords against undisturbed ones. All are measured in one run, in pairs, because machines
// differ and are shared: quote the ratios.
//
//	go run ./routing -from REVISION -links 20000 -rounds 3 -burst 2s
//
// It exits with 1 after a wrong response.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from        = flag.String("from", "", "git revision of the earlier version")
	only        = flag.String("only", "", "gates for the part with wrong passwords, which needs no earlier version")
	links       = flag.Int("links", 1_000_000, "number of plain links on each version")
	rounds      = flag.Int("rounds", 9, "number of bursts of each target")
	burst       = flag.Duration("burst", 4*time.Second, "duration of a burst")
	connections = flag.Int("connections", 64, "number of connections")
)

// routedLinks is the number of links with rules.
const routedLinks = 1000

func main() { rig.Main(run, nil) }

// version is a server of one version, with its links.
type version struct {
	rig.Target
	process       *rig.Process
	plain, routed []string // paths
	// perLink is the memory of a link in the cache, in bytes.
	perLink int
}

func run(r *rig.Run) {
	g := startGates(r)
	pairs := g.pairs(r)
	if *only == "gates" {
		r.MeasurePairs(*rounds, pairs)
		report(r, pairs)
		g.report()
		return
	}
	binary := r.BuildEarlier(*from)
	before, after := start(r, "before", binary, 0), start(r, "after", r.Server, routedLinks)
	for _, v := range []*version{before, after} {
		v.warmUp(r)
	}
	pairs = append([]*rig.Pair{
		{
			Name: "plain link, beside the earlier version", Baseline: before.visit(r, before.plain),
			Target: after.visit(r, after.plain),
		},
		{Name: "ten rules, beside a plain link", Baseline: after.visit(r, after.plain),
			Target: after.visit(r, after.routed)},
	}, pairs...)
	r.MeasurePairs(*rounds, pairs)
	report(r, pairs)
	fmt.Printf("- Memory of a link in the cache: %d bytes before, %d after (%.3f).\n", before.perLink, after.perLink,
		float64(after.perLink)/float64(before.perLink))
	g.report()
	rig.ReportWarnings(before.process, after.process)
}

// visit measures visits of links.
func (v *version) visit(r *rig.Run, paths []string) func() rig.Figures {
	return func() rig.Figures {
		figures, _, _ := r.Measure(v.Target, time.Second, v.load(paths))
		return figures
	}
}

// start starts a server with plain links, which all fit into its cache, and routed ones. It
// restarts the server once they are created.
func start(r *rig.Run, name, binary string, routed int) *version {
	const defaultCache, cachedLink = 256 << 20, 600 // LINKFORGE_CACHE_BYTES, and its part for a link
	cache := "LINKFORGE_CACHE_BYTES=" + strconv.Itoa(max(defaultCache, *links*cachedLink))
	first := r.Serve(name, binary, cache)
	tenant := r.NewTenant(first.Address, "bench", &http.Transport{})
	v := &version{}
	r.Timed("creating the links of "+name, func() {
		v.plain = paths(tenant.Fill(*links, 1000, 2, func(i int) map[string]any {
			return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
		}))
		v.routed = paths(tenant.Fill(routed, 100, 1, tenRules))
	})
	first.Stop()
	v.process = r.Serve(name, binary, cache)
	v.Target = rig.Target{Name: name, Own: []int{v.process.PID}}
	return v
}

// tenRules describes a link of ten rules; only the last one holds for the visits.
func tenRules(i int) map[string]any {
	var rules []any
	for k := range 10 {
		rule := map[string]any{"targets": []any{map[string]any{"url": rig.URLOf(i) + "/rule" + strconv.Itoa(k)}}}
		if k < 9 {
			rule["when"] = []any{map[string]any{"country": []string{"DE", "AT", "CH"}}}
		}
		rules = append(rules, rule)
	}
	return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM", "routing": map[string]any{"rules": rules}}
}

func paths(created []rig.Result) (all []string) {
	for _, c := range created {
		if c.Link.Code == "" {
			rig.Failf("a link was refused")
		}
		all = append(all, "/"+c.Link.Code)
	}
	return all
}

// warmUp loads each link into the cache by HEAD, and measures the memory.
func (v *version) warmUp(r *rig.Run) {
	r.Rest(v.Own, 5*time.Minute)
	empty := rig.RSS(v.process.PID)
	all := append(v.plain[:len(v.plain):len(v.plain)], v.routed...)
	l := v.load(all)
	l.N, l.Burst, l.Requests = len(all), 0, func(i int) string { return "?" + all[i] }
	r.Drive(v.Name, l)
	r.Rest(v.Own, 5*time.Minute)
	v.perLink = (rig.RSS(v.process.PID) - empty) / len(all)
}

// load is a burst of visits of at most routedLinks links, so that each link has a lease of hits.
func (v *version) load(paths []string) rig.Load {
	return rig.Load{
		Address: v.process.Address, Connections: *connections, Status: http.StatusFound, Burst: *burst,
		N: min(len(paths), routedLinks), Requests: func(i int) string { return paths[i] },
	}
}

func report(r *rig.Run, pairs []*rig.Pair) {
	fmt.Printf("%d plain links, %d rounds of %s, %d connections, SQLite, %s. Medians, with the minimum and the "+
		"maximum.\n",
		*links, *rounds, *burst, *connections, rig.Machine())
	rig.TableOfPairs(pairs)
	r.ReportMachine()
}
