// Command lone compares calls that come one at a time with those of an earlier version: creations,
// known URLs, queries, and first visits of links, by a single connection. It also measures how long
// the statistics lag behind a burst of redirects on an otherwise idle machine, the bytes that a
// click writes, and the memory after the load. All are measured in one run, in pairs, because
// machines differ and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./lone -from REVISION -on postgres -rounds 5
//
// It exits with 1 after a wrong response, or when clicks are missing.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from   = flag.String("from", "", "git revision of the earlier version")
	on     = flag.String("on", "postgres", "the database: postgres or sqlite")
	only   = flag.String("only", "", "the loads to measure, separated by commas; empty for all")
	rounds = flag.Int("rounds", 5, "number of bursts of each target")
	burst  = flag.Duration("burst", 2*time.Second,
		"duration of a burst of calls; one of redirects takes half as long again")
)

const (
	warmUp = 300 * time.Millisecond
	// visits is how many links a burst visits for the first time, popular how many a burst of
	// redirects visits again and again, by crowd connections.
	visits, popular, crowd = 1000, 1000, 64
	maxRest                = 30 * time.Second
)

func main() { rig.Main(run, nil) }

// version is a server of one version, with its links.
type version struct {
	*rig.Run
	rig.Target
	process *rig.Process
	admin   string
	tenant  *rig.Tenant
	next    int // the number of the next request
	// fresh are the paths that were not visited yet, popular those of other links.
	fresh, popular []string
	// lags are in seconds, written are bytes a click, memory is in bytes.
	lags, written []float64
	redirects     int64
}

func run(r *rig.Run) {
	binary := r.BuildEarlier(*from)
	before, after := start(r, "before", binary), start(r, "after", r.Server)
	var pairs []*rig.Pair
	for _, l := range loads() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), l.name) {
			continue
		}
		pairs = append(pairs, &rig.Pair{
			Name:     l.name,
			Baseline: func() rig.Figures { return l.measure(before) },
			Target:   func() rig.Figures { return l.measure(after) },
		})
	}
	r.MeasurePairs(*rounds, pairs)
	fmt.Printf("%d rounds of %s, one connection (redirects: %d), %s, %s. Medians, with the minimum and the maximum.\n",
		*rounds, *burst, crowd, *on, rig.Machine())
	rig.TableOfPairs(pairs)
	for _, v := range []*version{before, after} {
		v.report()
	}
	r.ReportMachine()
	rig.ReportWarnings(before.process, after.process)
}

// start starts a server of a version with its own database and its links.
func start(r *rig.Run, name, binary string) *version {
	v := &version{Run: r, admin: rig.FreeAddress()}
	env := []string{"LINKFORGE_ADMIN_LISTEN=" + v.admin}
	if *on == "postgres" {
		r.OpenServices()
		env, v.Beside = append(env, r.ServicesEnv()...), slices.Clone(r.ServicePIDs)
	}
	v.process = r.Serve(name, binary, env...)
	v.Name, v.Own = name, []int{v.process.PID}
	v.tenant = r.NewTenant(v.process.Address, "bench", &http.Transport{})
	r.Timed("creating the links of "+name, func() {
		for _, c := range v.tenant.Fill(popular+*rounds*visits, 1000, 2, func(i int) map[string]any {
			return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
		}) {
			v.fresh = append(v.fresh, "/"+c.Link.Code)
		}
	})
	v.popular, v.fresh = v.fresh[:popular], v.fresh[popular:]
	r.Rest(v.PIDs(), maxRest)
	return v
}

// load is a kind of call.
type load struct {
	name    string
	measure func(v *version) rig.Figures
}

func loads() []load {
	calls := func(name, expected string, request func(v *version) string) load {
		return load{name, func(v *version) rig.Figures { return v.call(expected, request(v)) }}
	}
	return []load{
		calls("createLink", `"created":true`, func(v *version) string {
			return v.createLink("https://www.example.com/new/" + rig.NumberPlace)
		}),
		calls("createLink of a known URL", `"created":false`, func(v *version) string {
			known := "https://www.example.com/known"
			rig.Must(v.tenant.Post(v.createLink(known)))
			return v.createLink(known)
		}),
		calls("me", `"email"`, func(*version) string { return `{"query":"{ me { email } }"}` }),
		calls("empty query", `"__typename"`, func(*version) string { return `{"query":"{ __typename }"}` }),
		{"first visit", (*version).visitFirst},
		{"burst of redirects", (*version).visitPopular},
	}
}

func (v *version) createLink(url string) string {
	return rig.Mutation("createLink", "CreateLinkInput", "created link { id code }",
		map[string]any{"workspaceId": v.tenant.Workspace, "url": url, "title": "A title of some words"})
}

// call measures a burst of one call after the other.
func (v *version) call(expected, request string) rig.Figures {
	l := rig.Load{
		Address: v.process.Address, Token: v.tenant.Token, Connections: 1, Burst: warmUp, Status: http.StatusOK,
		Expected: expected, N: 1, First: v.next, Requests: func(int) string { return request },
	}
	l.First = v.Drive(v.Name, l).Next
	l.Burst = *burst
	began := rig.Used(v.Target)
	o := v.Drive(v.Name, l)
	v.next = max(v.next, o.Next)
	f := rig.FiguresOf(o, rig.Used(v.Target).Since(began))
	v.Rest(v.PIDs(), maxRest)
	return f
}

// visitFirst visits links that were not visited before, one after the other.
func (v *version) visitFirst() rig.Figures {
	paths := v.fresh[:visits]
	v.fresh = v.fresh[visits:]
	began := rig.Used(v.Target)
	o := v.Drive(v.Name, rig.Load{N: visits, Address: v.process.Address, Connections: 1, Status: http.StatusFound,
		Requests: func(i int) string { return paths[i] }})
	f := rig.FiguresOf(o, rig.Used(v.Target).Since(began))
	v.redirects += o.Right
	v.Rest(v.PIDs(), maxRest)
	return f
}

// visitPopular measures a burst of redirects, with all that it defers, and the time from its end
// until the statistics have all its clicks.
func (v *version) visitPopular() rig.Figures {
	began, written := rig.Used(v.Target), rig.Written(v.PIDs())
	o := v.Drive(v.Name, rig.Load{N: popular, Address: v.process.Address, Connections: crowd, Burst: *burst * 3 / 2,
		Status: http.StatusFound, Requests: func(i int) string { return v.popular[i] }})
	ended := time.Now()
	v.Await("the statistics have all clicks", func() bool {
		waiting, ok := v.Metric(v.admin, "linkforge_click_log_lag_clicks")
		return ok && waiting == 0
	})
	v.lags = append(v.lags, time.Since(ended).Seconds())
	v.Rest(v.PIDs(), maxRest)
	f := rig.FiguresOf(o, rig.Used(v.Target).Since(began))
	v.written = append(v.written, float64(rig.Written(v.PIDs())-written)/float64(o.Right))
	v.redirects += o.Right
	return f
}

// report prints what no pair shows, and compares the clicks with the redirects.
func (v *version) report() {
	fmt.Printf("- %s: statistics complete %s s after a burst, %s bytes written a click, %d MB of memory at the end.\n",
		v.Name, rig.Spread(v.lags, "%.1f", rig.Same), rig.Spread(v.written, "%.0f", rig.Same),
		rig.RSS(v.process.PID)/1_000_000)
	var data struct {
		Workspace struct{ Stats struct{ Clicks int64 } }
	}
	rig.Check(v.tenant.Do(&data, `query ($id: ID!) { workspace(by: {id: $id}) { stats { clicks } } }`,
		map[string]any{"id": v.tenant.Workspace}))
	if counted := data.Workspace.Stats.Clicks; counted != v.redirects {
		v.Wrongf("%s: clicks counted %s, redirects seen %d", v.Name, strconv.FormatInt(counted, 10), v.redirects)
	}
}
