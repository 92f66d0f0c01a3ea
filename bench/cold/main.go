// Command cold measures visits that are not served from the memory of a node, compared with a
// constant net/http handler and an earlier version: the first visits of links in a month, and
// popular links just after a start. A node starts before each burst. All are measured in one run,
// in pairs, because machines differ and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./cold -from REVISION -on postgres -rounds 5
//
// It exits with 1 after a wrong response, or when the clicks do not add up.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from   = flag.String("from", "", "git revision of the earlier version")
	on     = flag.String("on", "postgres", "the database: postgres or sqlite")
	only   = flag.String("only", "", "the load to measure: first or zipf; empty for both")
	rounds = flag.Int("rounds", 5, "number of bursts of each target")
	visits = flag.Int("visits", 200_000,
		"requests: of all bursts of first visits of a pair, of each burst of popular links")
	links       = flag.Int("links", 200_000, "number of links of which some are popular")
	connections = flag.Int("connections", 64, "number of connections")
)

const (
	// skew is the exponent of the popularity: 1, as far as rand.NewZipf permits.
	skew = 1.0001
	// firstTargets is the number of bursts of first visits of a version in a round, at most.
	firstTargets = 2
	// maxRest bounds the wait for deferred work. A start does the rest of it.
	maxRest = 6 * time.Second
)

func main() { rig.Main(run, rig.Helpers{"constant": rig.ServeConstant(rig.URLOf(0))}) }

// version is a server of one version, with its links.
type version struct {
	*rig.Run
	rig.Target
	binary   string
	settings []string
	process  *rig.Process
	// database is where its links are.
	database string
	// fresh are the paths that were not visited yet, popular those of the other links.
	fresh, popular []string
	seen           int64
}

func run(r *rig.Run) {
	binary := r.BuildEarlier(*from)
	constant := r.Helper("constant", nil, "constant")
	before, after := start(r, "before", binary), start(r, "after", r.Server)
	var pairs []*rig.Pair
	for _, l := range []struct {
		short, name string
		measure     func(*version) rig.Figures
		n           int
	}{
		{"first", "first visits", (*version).visitFirst, firsts()},
		{"zipf", "popular links, from the start", (*version).visitPopular, *visits},
	} {
		if *only != "" && *only != l.short {
			continue
		}
		of := rig.Load{N: l.n, Address: constant.Address, Requests: func(i int) string { return "/" + rig.Code(i) }}
		pairs = append(pairs,
			&rig.Pair{
				Name:     l.name + ", beside a constant handler",
				Baseline: func() rig.Figures { return visitConstant(r, constant, of) },
				Target:   func() rig.Figures { return l.measure(after) },
			},
			&rig.Pair{
				Name:     l.name + ", beside the earlier version",
				Baseline: func() rig.Figures { return l.measure(before) },
				Target:   func() rig.Figures { return l.measure(after) },
			})
	}
	r.MeasurePairs(*rounds, pairs)
	fmt.Printf("%d visits, %d links, %d rounds, %d connections, %s, %s. Medians, with the minimum and the maximum.\n",
		*visits, *links, *rounds, *connections, *on, rig.Machine())
	rig.TableOfPairs(pairs)
	r.ReportMachine()
	before.stopAndCount()
	after.stopAndCount()
	if *on == "postgres" {
		reportRoundTrips(r)
	}
}

// reportRoundTrips prints the round trips of first visits, one after the other and 64 at a time,
// and of the ingest of their clicks.
func reportRoundTrips(r *rig.Run) {
	const n = 2000
	r.OpenServices()
	database, redis := r.Record(r.DatabaseURL), r.Record(r.RedisURL)
	settings := []string{"LINKFORGE_DATABASE_URL=" + database.URL, "LINKFORGE_REDIS_URL=" + redis.URL}
	p := r.Serve("recorded", r.Server, settings...)
	tenant := r.NewTenant(p.Address, "recorded", &http.Transport{})
	var paths []string
	for _, c := range tenant.Fill(2*n, 1000, 2, func(i int) map[string]any {
		return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
	}) {
		paths = append(paths, "/"+c.Link.Code)
	}
	p.Stop()
	p = r.Serve("recorded", r.Server, settings...) // nothing is in memory
	defer p.Stop()
	for _, at := range []int{1, *connections} {
		r.Rest([]int{p.PID}, maxRest)
		inDatabase, inRedis := database.Trips.Load(), redis.Trips.Load()
		some := paths[:n]
		paths = paths[n:]
		o := r.Drive("recorded", rig.Load{N: n, Address: p.Address, Connections: at, Status: http.StatusFound,
			Requests: func(i int) string { return some[i] }})
		fmt.Printf("- Round trips of %d first visits, %d at a time, in %s: PostgreSQL %.2f, Redis %.2f a visit.\n", n,
			at,
			o.Took.Round(time.Millisecond), float64(database.Trips.Load()-inDatabase)/n,
			float64(redis.Trips.Load()-inRedis)/n)
	}
}

// firsts is the number of links that a burst visits for the first time.
func firsts() int { return *visits / *rounds }

// start starts a server of a version with its own database, and creates its links.
func start(r *rig.Run, name, binary string) *version {
	v := &version{Run: r, binary: binary, database: filepath.Join(r.Folder, name+"-data", "linkforge.db")}
	v.Name = name
	const defaultCache, cachedLink = 256 << 20, 600 // LINKFORGE_CACHE_BYTES, and its part for a link: all links fit
	v.settings = []string{"LINKFORGE_CACHE_BYTES=" + strconv.Itoa(max(defaultCache, *links*cachedLink))}
	if *on == "postgres" {
		r.OpenServices()
		v.settings, v.database = append(v.settings, r.ServicesEnv()...), r.DatabaseURL
		v.Beside = slices.Clone(r.ServicePIDs)
	}
	v.restart()
	tenant := r.NewTenant(v.process.Address, "bench", &http.Transport{})
	create := func(n int) (paths []string) {
		for _, c := range tenant.Fill(n, 1000, 2, func(i int) map[string]any {
			return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
		}) {
			paths = append(paths, "/"+c.Link.Code)
		}
		return paths
	}
	r.Timed("creating the links of "+name, func() {
		if *only != "zipf" {
			v.fresh = create(firstTargets * *rounds * firsts())
		}
		if *only != "first" {
			v.popular = create(*links)
		}
	})
	r.Timed("indexing their texts", func() { // takes longer than their creation
		for v.Number(v.database, "SELECT count(*) FROM link_text_queue") > 0 {
			r.Pause(time.Second)
		}
	})
	r.Rest(v.PIDs(), maxRest)
	return v
}

// restart restarts the server, and waits until it is idle.
func (v *version) restart() {
	if v.process != nil {
		v.process.Stop()
	}
	v.process = v.Serve(v.Name, v.binary, v.settings...)
	v.Own = []int{v.process.PID}
	v.Rest(v.PIDs(), maxRest)
}

// visitFirst visits links that were not visited before, each once.
func (v *version) visitFirst() rig.Figures {
	v.restart()
	paths := v.fresh[:firsts()]
	v.fresh = v.fresh[firsts():]
	return v.visit(rig.Load{N: len(paths), Requests: func(i int) string { return paths[i] }})
}

// visitPopular visits links by a Zipf distribution just after a start. Which links are popular does
// not depend on when they were created.
func (v *version) visitPopular() rig.Figures {
	v.restart()
	byRank := rand.New(rand.NewPCG(0, 0)).Perm(*links)
	rank := rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), 1)), skew, 1, uint64(*links-1))
	return v.visit(rig.Load{N: *visits, Requests: func(int) string { return v.popular[byRank[rank.Uint64()]] }})
}

// visit measures a burst of visits, and the work that they defer.
func (v *version) visit(l rig.Load) rig.Figures {
	l.Address, l.Connections, l.Status = v.process.Address, *connections, http.StatusFound
	began := rig.Used(v.Target)
	o := v.Drive(v.Name, l)
	v.seen += o.Right
	v.Rest(v.PIDs(), maxRest)
	return rig.FiguresOf(o, rig.Used(v.Target).Since(began))
}

// visitConstant measures visits of the constant handler.
func visitConstant(r *rig.Run, p *rig.Process, l rig.Load) rig.Figures {
	l.Connections, l.Status = *connections, http.StatusFound
	t := rig.Target{Name: "constant", Own: []int{p.PID}}
	began := rig.Used(t)
	return rig.FiguresOf(r.Drive(t.Name, l), rig.Used(t).Since(began))
}

// stopAndCount stops the server, and compares the clicks in its database with the redirects.
func (v *version) stopAndCount() {
	v.restart() // ingests the rest of the click log before it is ready
	v.process.Stop()
	const clicks = "SELECT coalesce(sum(clicks), 0) FROM click_totals WHERE subject_id <> workspace_id"
	counted := v.Number(v.database, clicks)
	if counted != v.seen {
		v.Wrongf("%s: clicks counted %d, redirects seen %d", v.Name, counted, v.seen)
	}
	fmt.Printf("- %s: clicks counted %d, redirects seen %d.\n", v.Name, counted, v.seen)
	rig.ReportWarnings(v.process)
}
