// Command create compares the creation of links with an earlier version and with an empty
// query: single calls over many workspaces and in one, also by two nodes on PostgreSQL, known URLs,
// and bulk calls. All are measured in one run, in pairs, because machines differ and are shared:
// quote the ratios. On PostgreSQL it also counts the round trips of a creation.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./create -from REVISION -on postgres -rounds 5 -burst 2s
//
// It exits with 1 after a wrong response.
package main

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from        = flag.String("from", "", "git revision of the earlier version")
	on          = flag.String("on", "postgres", "the database: postgres or sqlite")
	only        = flag.String("only", "", "the loads to measure, separated by commas; empty for all")
	workspaces  = flag.Int("workspaces", 300, "number of workspaces")
	rounds      = flag.Int("rounds", 5, "number of bursts of each target")
	burst       = flag.Duration("burst", 2*time.Second, "duration of a burst")
	connections = flag.Int("connections", 64, "number of connections")
)

const (
	// batch is how many links a bulk call has.
	batch = 1000
	// perWorkspace is how many different requests a workspace gets.
	perWorkspace = 10
	// numbersOfFirst is how many numbers a burst leaves to the first of two nodes.
	numbersOfFirst = 1_000_000
	warmUp         = 500 * time.Millisecond
	// maxRest is the pause after a burst. Work that takes longer, such as indexing texts, is not
	// measured.
	maxRest = 6 * time.Second
)

func main() { rig.Main(run, nil) }

// version is a server of one version, with its workspaces.
type version struct {
	rig.Target
	process    *rig.Process
	second     *rig.Process // another node; nil on SQLite
	tenant     *rig.Tenant
	workspaces []string
	next       int // the number of the next request
	// p99s are those of each burst, in ms, by load.
	p99s map[string][]float64
}

func run(r *rig.Run) {
	binary := r.BuildEarlier(*from)
	before, after := start(r, "before", binary), start(r, "after", r.Server)
	var pairs []*rig.Pair
	empty := load{"empty query", `"__typename"`, *connections, false, 1, func(*version, int) string {
		return `{"query":"{ __typename }"}`
	}}
	for _, l := range loads() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), l.name) {
			continue
		}
		pairs = append(pairs, &rig.Pair{
			Name:     l.name + ", beside the earlier version",
			Baseline: func() rig.Figures { return before.measure(r, l) },
			Target:   func() rig.Figures { return after.measure(r, l) },
		})
		if !l.isBulk && l.nodes == 1 {
			pairs = append(pairs, &rig.Pair{
				Name:     l.name + ", beside an empty query",
				Baseline: func() rig.Figures { return after.measure(r, empty) },
				Target:   func() rig.Figures { return after.measure(r, l) },
			})
		}
	}
	r.MeasurePairs(*rounds, pairs)
	fmt.Printf("%d workspaces, %d rounds of %s, %d connections, %s, %s. Medians, with the minimum and the maximum.\n",
		*workspaces, *rounds, *burst, *connections, *on, rig.Machine())
	rig.TableOfPairs(pairs)
	for _, v := range []*version{before, after} {
		for _, name := range slices.Sorted(maps.Keys(v.p99s)) {
			fmt.Printf("- p99 of %s, %s: %s ms\n", name, v.Name, rig.Spread(v.p99s[name], "%.1f", rig.Same))
		}
	}
	if *on == "postgres" {
		reportRoundTrips(r, "before", binary)
		reportRoundTrips(r, "after", r.Server)
	}
	r.ReportMachine()
	rig.ReportWarnings(before.process, after.process)
	if *on == "postgres" {
		rig.ReportWarnings(before.second, after.second)
	}
}

// start starts a server of a version with its own database and its workspaces.
func start(r *rig.Run, name, binary string) *version {
	v := &version{p99s: map[string][]float64{}}
	var env []string
	if *on == "postgres" {
		r.OpenServices()
		env, v.Beside = r.ServicesEnv(), slices.Clone(r.ServicePIDs)
	}
	env = append(env, "LINKFORGE_MAX_WORKSPACES="+fmt.Sprint(*workspaces), "LINKFORGE_PUBLIC_URL="+rig.PublicURL)
	v.process = r.Serve(name, binary, env...)
	v.Name, v.Own = name, []int{v.process.PID}
	if *on == "postgres" {
		v.second = r.Serve(name+"-second", binary, env...)
		v.Own = append(v.Own, v.second.PID)
	}
	v.tenant = r.NewTenant(v.process.Address, "bench", &http.Transport{})
	v.workspaces = []string{v.tenant.Workspace}
	for i := 1; i < *workspaces; i++ {
		v.workspaces = append(v.workspaces, v.tenant.CreateWorkspace(fmt.Sprint("bench-", i)))
	}
	for i := range perWorkspace * *workspaces { // the known URLs
		rig.Must(v.tenant.Post(createLink(v.workspaces[i%*workspaces], rig.URLOf(i))))
	}
	return v
}

// load is a kind of request. A number replaces rig.NumberPlace in its body.
type load struct {
	name, expected string
	connections    int
	isBulk         bool
	nodes          int // that share the connections
	request        func(v *version, i int) string
}

// distinct is the number of different requests: each workspace has some, and those of bulk calls
// are large.
func (l load) distinct(v *version) int {
	if l.isBulk {
		return l.connections
	}
	return perWorkspace * len(v.workspaces)
}

// measure measures a burst of requests.
func (v *version) measure(r *rig.Run, l load) rig.Figures {
	burstOf := func(duration time.Duration) rig.Outcome {
		load := rig.Load{
			Address: v.process.Address, Token: v.tenant.Token, Connections: l.connections / l.nodes, Burst: duration,
			Status: http.StatusOK, Expected: l.expected, N: l.distinct(v), First: v.next,
			Requests: func(i int) string { return l.request(v, i) },
		}
		if l.nodes == 1 {
			o := r.Drive(v.Name, load)
			v.next = max(v.next, o.Next)
			return o
		}
		others := load
		others.Address, others.First = v.second.Address, v.next+numbersOfFirst
		var o, other rig.Outcome
		var driving sync.WaitGroup
		driving.Go(func() { o = r.Drive(v.Name, load) })
		driving.Go(func() { other = r.Drive(v.Name, others) })
		driving.Wait()
		v.next = max(v.next, other.Next)
		return rig.Outcome{
			Sent: o.Sent + other.Sent, Right: o.Right + other.Right, Bytes: o.Bytes + other.Bytes,
			Took: max(o.Took, other.Took), P50: max(o.P50, other.P50), P99: max(o.P99, other.P99),
			CPU: o.CPU + other.CPU,
		}
	}
	burstOf(warmUp)
	began := rig.Used(v.Target)
	o := burstOf(*burst)
	figures := rig.FiguresOf(o, rig.Used(v.Target).Since(began))
	r.Rest(v.PIDs(), maxRest)
	v.p99s[l.name] = append(v.p99s[l.name], figures.P99)
	return figures
}

func loads() []load {
	const newURL = "https://www.example.com/new/" + rig.NumberPlace
	all := []load{
		{"createLink over all workspaces", `"created":true`, *connections, false, 1, func(v *version, i int) string {
			return createLink(v.workspaces[i%len(v.workspaces)], newURL)
		}},
		{"createLink in one workspace", `"created":true`, *connections, false, 1, func(v *version, _ int) string {
			return createLink(v.tenant.Workspace, newURL)
		}},
		{"createLink of known URLs", `"created":false`, *connections, false, 1, func(v *version, i int) string {
			return createLink(v.workspaces[i%len(v.workspaces)], rig.URLOf(i))
		}},
		{"createLinks", `"created":true`, 4, true, 1, func(v *version, _ int) string {
			var links []any
			for k := range batch {
				links = append(links,
					map[string]any{"url": fmt.Sprint(newURL, "/", k), "title": "A title of some words"})
			}
			return rig.Mutation("createLinks", "CreateLinksInput", "results { created link { id code } }",
				map[string]any{"workspaceId": v.tenant.Workspace, "links": links})
		}},
	}
	if *on == "postgres" {
		all = append(all, load{"createLink in one workspace by two nodes", `"created":true`, *connections, false, 2,
			func(v *version, _ int) string { return createLink(v.tenant.Workspace, newURL) }})
	}
	return all
}

func createLink(workspace, url string) string {
	return rig.Mutation("createLink", "CreateLinkInput", "created link { id code }",
		map[string]any{"workspaceId": workspace, "url": url, "title": "A title of some words"})
}

// reportRoundTrips prints the round trips of creations by a client that sends one at a time to two
// workspaces in turn.
func reportRoundTrips(r *rig.Run, name, binary string) {
	const n = 200
	r.OpenServices()
	rec := r.Record(r.DatabaseURL)
	p := r.Serve(name+"-recorded", binary, append(r.ServicesEnv(), "LINKFORGE_DATABASE_URL="+rec.URL)...)
	defer p.Stop()
	tenant := r.NewTenant(p.Address, "recorded", &http.Transport{})
	spaces := []string{tenant.Workspace, tenant.CreateWorkspace("recorded-too")}
	send := func(what string, describe func(i int) string) {
		for i := range 10 { // statements are prepared
			rig.Must(tenant.Post(createLink(spaces[i%2], fmt.Sprint("https://www.example.com/prepared/", what, i))))
		}
		r.Rest([]int{p.PID}, time.Minute)
		before := rec.Trips.Load()
		for i := range n {
			rig.Must(tenant.Post(createLink(spaces[i%2], describe(i))))
		}
		fmt.Printf("- Round trips of createLink, %s, %s: %.2f\n", what, name, float64(rec.Trips.Load()-before)/n)
	}
	path := func(i int) string { return fmt.Sprint("https://www.example.com/trip/", i) }
	send("new URL", path)
	send("known URL", path)
	rig.ReportWarnings(p)
}
