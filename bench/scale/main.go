// Command scale measures how the cost of an operation grows with the number of links, nodes and
// workspaces. It reports the CPU time of Linkforge, and
// of PostgreSQL with Redis, for one operation, and its latency: on a machine of few cores
// throughput cannot grow with the nodes.
//
//	../scripts/with-services go run ./scale -links 10000,50000 -tenants 100 -rounds 1
//
// Sizes that are compared are measured in turns, in short bursts, so that a noisy machine is noisy
// for all of them. It exits with 1 after a wrong response. A cost that grows is no error.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	partNames   = flag.String("parts", "links,nodes,tenants", "what is compared, separated by commas")
	opNames     = flag.String("operations", allOperations, "operations, of those that a part has")
	linkCounts  = flag.String("links", "100000,1000000,10000000", "numbers of links that are compared")
	tenants     = flag.Int("tenants", 1000, "number of workspaces while links and nodes are compared")
	manyTenants = flag.String("many-tenants", "10,1000,100000", "numbers of workspaces that are compared")
	at          = flag.Int("at", 1_000_000, "number of links while nodes and workspaces are compared")
	nodeCounts  = flag.String("nodes", "1,2,4", "numbers of nodes that are compared")
	rounds      = flag.Int("rounds", 3, "number of bursts of each operation and size")
	burst       = flag.Duration("burst", 2*time.Second, "duration of a burst")
	warmUp      = flag.Duration("warm-up", time.Second, "duration of the burst before, which is not measured")
	idle        = flag.Duration("idle", 10*time.Second, "how long nodes without requests are measured")
	connections = flag.Int("connections", 8, "number of connections")
)

const allOperations = "hot,look,cold,create,known,large,small,word,serial,stats"

func main() { rig.Main(run, rig.Helpers{"constant": rig.ServeConstant(urlOf(0))}) }

type bench struct {
	*rig.Run
	datasets []*dataset
	constant *rig.Process
	started  int // number of servers that were started
	next     int // number of the next new link
	turn     int // first turn of the next burst
}

// numbers parses numbers separated by commas, the smallest first.
func numbers(list string) (all []int) {
	for word := range strings.SplitSeq(list, ",") {
		n := rig.Must(strconv.Atoi(word))
		if len(all) > 0 && n <= all[len(all)-1] {
			rig.Failf("%q is not in ascending order", list)
		}
		all = append(all, n)
	}
	return all
}

func run(r *rig.Run) {
	links, many, nodes := numbers(*linkCounts), numbers(*manyTenants), numbers(*nodeCounts)
	for name := range strings.SplitSeq(*opNames, ",") {
		operationNamed(name)
	}
	r.OpenServices()
	b := &bench{Run: r}
	parts := strings.Split(*partNames, ",")
	if slices.Contains(parts, "links") {
		for _, n := range links {
			b.add(n, *tenants)
		}
	}
	if slices.Contains(parts, "nodes") {
		b.add(*at, *tenants)
	}
	if slices.Contains(parts, "tenants") {
		for _, n := range many {
			b.add(*at, n)
		}
	}
	rig.InBatches(len(b.datasets), 1, 2, func(i, _ int) { b.fill(b.datasets[len(b.datasets)-1-i]) }) // largest first
	b.constant = r.Helper("constant", nil, "constant")
	fmt.Printf("%d connections, %d rounds of bursts of %s after %s, %s. Medians.\n", *connections, *rounds,
		*burst, *warmUp, rig.Machine())
	for _, part := range parts {
		b.Say("part %s", part)
		switch part {
		case "links":
			var columns []*column
			for _, n := range links {
				columns = append(columns, b.start(thousands(n)+" links", b.find(n, *tenants), 1))
			}
			b.compare(fmt.Sprintf("With the links, in %s workspaces, one node", thousands(*tenants)), allOperations,
				columns)
			reportDisk(columns)
		case "nodes":
			b.compareNodes(nodes)
		case "tenants":
			var columns []*column
			for _, n := range many {
				columns = append(columns, b.start(thousands(n)+" workspaces", b.find(*at, n), 1))
			}
			b.compare(fmt.Sprintf("With the workspaces, %s links, one node", thousands(*at)),
				"hot,look,create,known,small",
				columns)
		default:
			rig.Failf("there is no part %q", part)
		}
	}
}

func (b *bench) add(links, tenants int) {
	s := shape{Number: len(b.datasets) + 1, Links: links, Tenants: tenants}
	if b.find(links, tenants) != nil {
		return
	}
	if tenants < 2 || links < 1000 || links > 99_999_999 || s.size(1) < 2 { // serials have eight digits
		rig.Failf("%d links in %d workspaces cannot be compared", links, tenants)
	}
	b.datasets = append(b.datasets, &dataset{shape: s, databaseURL: b.CreateDatabase()})
}

func (b *bench) find(links, tenants int) *dataset {
	for _, d := range b.datasets {
		if d.Links == links && d.Tenants == tenants {
			return d
		}
	}
	return nil
}

// column is one size: nodes on a dataset, with the figures of each operation in each round.
type column struct {
	*dataset
	title    string
	nodes    []*node
	cold     int     // next turn of operations that are sent once
	perLink  float64 // bytes of a link in a node's memory
	measured map[string][]figures
}

// node is a server.
type node struct {
	*rig.Process
	admin string
}

// target is the nodes of a column, with PostgreSQL and Redis.
func (b *bench) target(c *column) rig.Target {
	t := rig.Target{Name: c.title, Beside: b.ServicePIDs}
	for _, n := range c.nodes {
		t.Own = append(t.Own, n.PID)
	}
	return t
}

// start starts nodes on a dataset, and has each cache the hot links.
func (b *bench) start(title string, d *dataset, nodes int) *column {
	c := &column{dataset: d, title: title, measured: map[string][]figures{}}
	for range nodes {
		b.started++
		n := &node{admin: rig.FreeAddress()}
		n.Process = b.Serve(fmt.Sprintf("node-%d", b.started), b.Server, "LINKFORGE_ADMIN_LISTEN="+n.admin,
			"LINKFORGE_PUBLIC_URL="+rig.PublicURL, "LINKFORGE_DATABASE_URL="+d.databaseURL,
			"LINKFORGE_REDIS_URL="+b.RedisURL)
		c.nodes = append(c.nodes, n)
	}
	b.join(d, c.nodes[0].Address)
	before := b.heap(c.nodes[0])
	for _, n := range c.nodes {
		b.turns(c, n, sweep, d.hot())
	}
	c.perLink = float64(b.heap(c.nodes[0])-before) / float64(d.hot())
	for _, n := range c.nodes {
		b.turns(c, n, follow, d.followed())
	}
	b.rest(follow, c)
	b.Say("%s: started", title)
	return c
}

func (b *bench) turns(c *column, n *node, op operation, turns int) {
	b.Drive(op.name, rig.Load{Address: n.Address, N: turns, Connections: *connections, Status: 302,
		Requests: func(i int) string { return op.request(c.shape, i, nil) }})
}

// heap returns the node's heap after a garbage collection, in bytes.
func (b *bench) heap(n *node) int {
	text := b.Get("http://" + n.admin + "/debug/pprof/heap?gc=1&debug=1")
	_, rest, _ := bytes.Cut(text, []byte("# HeapAlloc = "))
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	return rig.Must(strconv.Atoi(string(number)))
}

func (c *column) stop() {
	for _, n := range c.nodes {
		n.Stop()
	}
}

// rest waits until deferred work is done: nodes write clicks to logs, and pause between batches.
func (b *bench) rest(op operation, c *column) {
	if !op.defers {
		return
	}
	for _, n := range c.nodes {
		b.Await("clicks are ingested", func() bool {
			lag, ok := b.Metric(n.admin, "linkforge_click_log_lag_clicks")
			return ok && lag == 0
		})
	}
	b.Rest(b.target(c).PIDs(), 15*time.Second)
}

// compare compares one node each on several databases.
func (b *bench) compare(title, operations string, columns []*column) {
	constant := b.takeTurns(operations, columns)
	b.report(title, operations, constant, columns)
	for _, c := range columns {
		c.stop()
	}
}

// compareNodes compares numbers of nodes on one database.
func (b *bench) compareNodes(nodes []int) {
	const operations = "hot,create"
	var columns []*column
	var constant []figures
	rows := [][]string{{"Without requests, CPU ms a second", "each node", "PostgreSQL + Redis, in all"}}
	for _, n := range nodes {
		c := b.start(fmt.Sprintf("nodes: %d", n), b.find(*at, *tenants), n)
		before := rig.Used(b.target(c))
		b.Pause(*idle)
		u := rig.Used(b.target(c)).Since(before)
		rows = append(rows, []string{c.title, fmt.Sprintf("%.1f", rig.Millis(u.Own)/u.At.Seconds()/float64(n)),
			fmt.Sprintf("%.1f", rig.Millis(u.Beside)/u.At.Seconds())})
		constant = append(constant, b.takeTurns(operations, []*column{c})...)
		columns = append(columns, c)
		c.stop()
	}
	b.report(fmt.Sprintf("With the nodes, %s links in %s workspaces", thousands(*at), thousands(*tenants)), operations,
		constant, columns)
	rig.Table(rows...)
}

func cpu(f figures) float64    { return f.CPU() }
func p50(f figures) float64    { return f.P50 }
func p99(f figures) float64    { return f.P99 }
func own(f figures) float64    { return f.Own }
func beside(f figures) float64 { return f.Beside }
func blocks(f figures) float64 { return f.blocks }

// figuresOf are the rows of a table, whose cells are medians. The last column is the growth of a
// figure from the first size to the last, round by round.
type figuresOf struct {
	title, format string
	cell          []func(figures) float64
	growth        func(figures) float64
}

var tables = []figuresOf{
	{"CPU µs an operation: node + PostgreSQL and Redis", "%.0f + %.0f", []func(figures) float64{own, beside}, cpu},
	{"p50 / p99, ms", "%.2f / %.1f", []func(figures) float64{p50, p99}, p50},
	{"PostgreSQL transactions / Redis commands an operation", "%.2f / %.2f", []func(figures) float64{
		func(f figures) float64 { return f.transactions }, func(f figures) float64 { return f.commands }}, nil},
	{"PostgreSQL's blocks, of which not in its memory / KiB logged", "%.0f, %.1f / %.1f", []func(figures) float64{
		blocks, func(f figures) float64 { return f.reads }, func(f figures) float64 { return f.log }}, blocks},
}

// wanted returns those of the operations that are selected.
func wanted(operations string) []string {
	selected := strings.Split(*opNames, ",")
	return slices.DeleteFunc(strings.Split(operations, ","),
		func(name string) bool { return !slices.Contains(selected, name) })
}

func (b *bench) report(title, operations string, constant []figures, columns []*column) {
	fmt.Printf("\n### %s\n\nA handler that only redirects took %.0f µs meanwhile (p50 %.2f ms, p99 %.2f ms).\n", title,
		rig.Median(constant, cpu), rig.Median(constant, p50), rig.Median(constant, p99))
	first, last := columns[0], columns[len(columns)-1]
	for _, t := range tables {
		rows := [][]string{{t.title}}
		for _, c := range columns {
			rows[0] = append(rows[0], c.title)
		}
		if t.growth == nil {
			rows[0] = append(rows[0], "operations/s, "+last.title)
		} else {
			rows[0] = append(rows[0], last.title+" ÷ "+first.title)
		}
		for _, name := range wanted(operations) {
			row := []string{operationNamed(name).title}
			for _, c := range columns {
				var values []any
				for _, of := range t.cell {
					values = append(values, rig.Median(c.measured[name], of))
				}
				row = append(row, fmt.Sprintf(t.format, values...))
			}
			end := growth(first.measured[name], last.measured[name], t.growth)
			if t.growth == nil {
				end = rig.Spread(last.measured[name], "%.0f", func(f figures) float64 { return f.Rate })
			}
			rows = append(rows, append(row, end))
		}
		rig.Table(rows...)
	}
}

func growth(first, last []figures, of func(figures) float64) string {
	var times []float64
	for i := range min(len(first), len(last)) {
		if of != nil && of(first[i]) > 0 {
			times = append(times, of(last[i])/of(first[i]))
		}
	}
	return rig.Spread(times, "%.2f", rig.Same)
}

// reportDisk prints the size of a link on disk before anything was measured, and in memory.
func reportDisk(columns []*column) {
	rows := [][]string{{"Bytes a link"}}
	names := append([]string{"on disk"}, slices.Sorted(maps.Keys(columns[0].disk))...)
	for _, name := range append(names, "in a node's memory") {
		rows = append(rows, []string{name})
	}
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
		total := 0.0
		for i, name := range names {
			total += c.disk[name]
			rows[i+1] = append(rows[i+1], fmt.Sprintf("%.0f", c.disk[name]))
		}
		rows[1][len(rows[1])-1] = fmt.Sprintf("%.0f", total)
		rows[len(rows)-1] = append(rows[len(rows)-1], fmt.Sprintf("%.0f", c.perLink))
	}
	rig.Table(rows...)
}

// thousands formats a number with commas.
var thousands = message.NewPrinter(language.English).Sprint
