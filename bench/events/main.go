// Command events measures the cost of the history and the events of links: creations, changes and
// redirects against those of an earlier version, upserts against reads, and webhooks against none.
// All are measured in one run, in pairs, because machines differ and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./events -from REVISION -on postgres -rounds 3 -burst 2s
//
// It exits with 1 after a wrong response.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from = flag.String("from", "",
		"git revision of the earlier version; not needed with -only webhooks, deliveries or visible")
	on       = flag.String("on", "postgres", "the database: postgres or sqlite")
	only     = flag.String("only", "", "the loads to measure, separated by commas; empty for all")
	webhooks = flag.Int("webhooks", 10000,
		"number of webhooks that receive nothing, or with -only deliveries one event at a time")
	rate        = flag.Int("rate", 200, "events a second with -only deliveries")
	lasting     = flag.Duration("lasting", time.Minute, "time of events with -only deliveries")
	links       = flag.Int("links", 2000, "number of links that are changed and followed")
	rounds      = flag.Int("rounds", 7, "number of bursts of each target")
	burst       = flag.Duration("burst", 3*time.Second, "duration of a burst")
	connections = flag.Int("connections", 32, "number of connections")
)

const (
	// batch is how many links a bulk call has.
	batch  = 100
	warmUp = 500 * time.Millisecond
)

func main() { rig.Main(run, rig.Helpers{"receive": serveReceiver}) }

// version is a server of one version, with its links.
type version struct {
	rig.Target
	process *rig.Process
	tenant  *rig.Tenant
	links   []rig.Result
	next    int // the number of the next request
}

func run(r *rig.Run) {
	var pairs []*rig.Pair
	var all []*rig.Process
	switch *only {
	case "deliveries":
		startNotifier(r).reportDeliveries()
		return
	case "visible":
		reportVisible(r)
		return
	}
	if *only != "webhooks" {
		binary := r.BuildEarlier(*from)
		before, after := start(r, "before", binary), start(r, "after", r.Server)
		pairs, all = pairsOf(r, before, after), []*rig.Process{before.process, after.process}
	}
	var n *notifier
	if isWanted("webhooks") {
		n = startNotifier(r)
		pairs, all = append(pairs, n.pairs()...), append(all, n.process)
	}
	r.MeasurePairs(*rounds, pairs)
	report(r, pairs)
	if n != nil {
		n.reportIdle()
	}
	rig.ReportWarnings(all...)
}

// pairsOf returns the loads to compare with the earlier version, and the pairs of loads to compare
// within the present one.
func pairsOf(r *rig.Run, before, after *version) (pairs []*rig.Pair) {
	for _, l := range loads() {
		if isWanted(l.name) {
			pairs = append(pairs, &rig.Pair{
				Name:     l.name + ", beside the earlier version",
				Baseline: func() rig.Figures { return before.measure(r, l) },
				Target:   func() rig.Figures { return after.measure(r, l) },
			})
		}
	}
	if isWanted("upsertLink") {
		read, upsert := byExternalID(after)
		pairs = append(pairs, &rig.Pair{
			Name:     "upsertLink of an equal link, beside reading it",
			Baseline: func() rig.Figures { return after.measure(r, read) },
			Target:   func() rig.Figures { return after.measure(r, upsert) },
		})
	}
	return pairs
}

// isWanted reports whether -only names the load.
func isWanted(name string) bool {
	return *only == "" || slices.Contains(strings.Split(*only, ","), name)
}

// start starts a server of a version with its own database and its links.
func start(r *rig.Run, name, binary string, env ...string) *version {
	v := &version{}
	if *on == "postgres" {
		r.OpenServices()
		env, v.Beside = append(r.ServicesEnv(), env...), slices.Clone(r.ServicePIDs)
	}
	v.process = r.Serve(name, binary, env...)
	v.Name, v.Own = name, []int{v.process.PID}
	v.tenant = r.NewTenant(v.process.Address, "bench", &http.Transport{})
	v.links = v.tenant.Fill(*links, 1000, 1, func(i int) map[string]any {
		return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
	})
	return v
}

// load is a kind of request. A number replaces rig.NumberPlace in its body.
type load struct {
	name, expected string
	connections    int
	status         int
	request        func(v *version, i int) string
}

func (v *version) measure(r *rig.Run, l load) rig.Figures {
	figures, outcome, _ := r.Measure(v.Target, warmUp, v.load(l))
	v.next = max(v.next, outcome.Next)
	return figures
}

// load returns a burst of requests to the version.
func (v *version) load(l load) rig.Load {
	return rig.Load{
		Address: v.process.Address, Token: v.tenant.Token, Connections: l.connections, Burst: *burst, Status: l.status,
		Expected: l.expected, N: *links, First: v.next, Requests: func(i int) string { return l.request(v, i) },
	}
}

// loads are the requests that both versions answer.
func loads() []load {
	const newURL = "https://www.example.com/new/" + rig.NumberPlace
	title := "Title " + rig.NumberPlace
	each := func(describe func(k int) map[string]any) (all []map[string]any) {
		for k := range batch {
			all = append(all, describe(k))
		}
		return all
	}
	return []load{
		{"createLink", `"created":true`, *connections, http.StatusOK, func(v *version, _ int) string {
			return rig.Mutation("createLink", "CreateLinkInput", "created link { id code }", map[string]any{
				"workspaceId": v.tenant.Workspace, "url": newURL, "title": "A title of some words",
			})
		}},
		{"createLinks of 100", `"created":true`, 4, http.StatusOK, func(v *version, _ int) string {
			return rig.Mutation("createLinks", "CreateLinksInput", "results { created link { id code } }",
				map[string]any{
					"workspaceId": v.tenant.Workspace, "links": each(func(k int) map[string]any {
						return map[string]any{"url": fmt.Sprint(newURL, "/", k), "title": "A title of some words"}
					}),
				})
		}},
		{"updateLink", `"link":{"id":`, *connections, http.StatusOK, func(v *version, i int) string {
			return rig.Mutation("updateLink", "UpdateLinkInput", "link { id }", map[string]any{
				"id": v.links[i].Link.ID, "title": title,
			})
		}},
		{"updateLinks of 100", `"link":{"id":`, 4, http.StatusOK, func(v *version, i int) string {
			return rig.Mutation("updateLinks", "UpdateLinksInput", "results { link { id } }", map[string]any{
				"workspaceId": v.tenant.Workspace, "links": each(func(k int) map[string]any {
					return map[string]any{"id": v.links[(i*batch+k)%len(v.links)].Link.ID, "title": title}
				}),
			})
		}},
		{"redirect", "", *connections, http.StatusFound, func(v *version, i int) string {
			return "/" + v.links[i].Link.Code
		}},
	}
}

// byExternalID returns reads of links by their external ids, and upserts that change nothing. It
// creates the links.
func byExternalID(v *version) (read, upsert load) {
	fields := func(i int) map[string]any {
		return map[string]any{
			"externalId": fmt.Sprint("order-", i), "url": rig.URLOf(i), "title": "A title of some words",
		}
	}
	rig.InBatches(*links, 1000, 1, func(from, to int) {
		var some []any
		for i := from; i < to; i++ {
			some = append(some, fields(i))
		}
		rig.Check(v.tenant.Do(&struct{}{}, `mutation ($in: UpsertLinksInput!) { upsertLinks(input: $in) {
			results { outcome errors { code message } } errors { code message } } }`,
			map[string]any{"in": map[string]any{"workspaceId": v.tenant.Workspace, "links": some}}))
	})
	const linkFields = "link { id code url: originalUrl title }"
	read = load{"", `"link":{"id":`, *connections, http.StatusOK, func(v *version, i int) string {
		return string(rig.Must(json.Marshal(map[string]any{
			"query": "query R($by: LinkBy!) { link(by: $by) { id code url: originalUrl title } }",
			"variables": map[string]any{"by": map[string]any{"external": map[string]any{
				"workspaceId": v.tenant.Workspace, "externalId": fields(i)["externalId"],
			}}},
		})))
	}}
	upsert = load{"", `"outcome":"UNCHANGED"`, *connections, http.StatusOK, func(v *version, i int) string {
		return rig.Mutation("upsertLink", "UpsertLinkInput", "outcome "+linkFields, map[string]any{
			"workspaceId": v.tenant.Workspace, "link": fields(i),
		})
	}}
	return read, upsert
}

func report(r *rig.Run, pairs []*rig.Pair) {
	fmt.Printf("%d links, %d rounds of %s, %s, %s. Medians, with the minimum and the maximum.\n",
		*links, *rounds, *burst, *on, rig.Machine())
	rig.TableOfPairs(pairs)
	r.ReportMachine()
}
