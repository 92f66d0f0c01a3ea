// Command imports measures imports and exports: redirects during an import against redirects
// without one, the rate, the CPU time of a row and the memory of both, and the cost of a node
// without tasks against one that runs none. All are measured in one run, because machines differ
// and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./imports -rows 100000 -on postgres
//
// It exits with 1 after a wrong response.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	on          = flag.String("on", "postgres", "the database: postgres or sqlite")
	rows        = flag.Int("rows", 100_000, "number of rows of an import")
	links       = flag.Int("links", 10_000, "number of links that are visited")
	rounds      = flag.Int("rounds", 5, "number of bursts of each target")
	burst       = flag.Duration("burst", 3*time.Second, "duration of a burst")
	idle        = flag.Duration("idle", 30*time.Second, "how long idle nodes are measured")
	connections = flag.Int("connections", 64, "number of connections")
)

const warmUp = time.Second

func main() { rig.Main(run, nil) }

// node is a server with its tenant.
type node struct {
	*rig.Run
	rig.Target
	process *rig.Process
	tenant  *rig.Tenant
	paths   []string
	files   int
}

func run(r *rig.Run) {
	n := start(r)
	pair := &rig.Pair{Name: "redirects during an import, beside none",
		Baseline: func() rig.Figures { return n.visit() }, Target: n.visitDuringImport}
	r.MeasurePairs(*rounds, []*rig.Pair{pair})
	fmt.Printf("%d rows, %d rounds of %s, %d connections, %s, %s. Medians, with the minimum and the maximum.\n", *rows,
		*rounds, *burst,
		*connections, *on, rig.Machine())
	rig.TableOfPairs([]*rig.Pair{pair})
	n.measureTask("import", func() string { return n.importFile(*rows) })
	n.measureTask("import of the same file again", func() string {
		n.files--
		return n.importFile(*rows)
	})
	n.measureTask("export", func() string { return n.create("exportWorkspace", "ExportWorkspaceInput", "", nil) })
	n.process.Stop()
	n.measureIdle()
	r.ReportMachine()
	rig.ReportWarnings(n.process)
}

// environment returns the settings of a node, with a database of its own on PostgreSQL.
func environment(r *rig.Run) (env []string, beside []int) {
	if *on == "postgres" {
		r.OpenServices()
		env, beside = r.ServicesEnv(), slices.Clone(r.ServicePIDs)
	}
	return append(env, "LINKFORGE_IMPORT_BYTES=1073741824"), beside
}

func start(r *rig.Run) *node {
	n := &node{Run: r}
	env, beside := environment(r)
	n.process = r.Serve("node", r.Server, env...)
	n.Target = rig.Target{Name: "node", Own: []int{n.process.PID}, Beside: beside}
	n.tenant = r.NewTenant(n.process.Address, "bench", &http.Transport{})
	for _, created := range n.tenant.Fill(*links, 1000, 2,
		func(i int) map[string]any { return map[string]any{"url": rig.URLOf(i)} }) {
		n.paths = append(n.paths, created.Link.Path())
	}
	r.Rest(n.PIDs(), time.Minute)
	return n
}

// visit measures a burst of redirects.
func (n *node) visit() rig.Figures {
	of := rig.Load{
		Address: n.process.Address, N: len(n.paths), Connections: *connections, Burst: warmUp, Status: http.StatusFound,
		Requests: func(i int) string { return n.paths[i] },
	}
	n.Drive(n.Name, of)
	of.Burst = *burst
	began := rig.Used(n.Target)
	o := n.Drive(n.Name, of)
	figures := rig.FiguresOf(o, rig.Used(n.Target).Since(began))
	n.Rest(n.PIDs(), 10*time.Second)
	return figures
}

// visitDuringImport is visit while an import runs.
func (n *node) visitDuringImport() rig.Figures {
	taskID := n.importFile(*rows)
	n.Await("the import runs", func() bool { return n.state(taskID).Done > 0 })
	figures := n.visit()
	if t := n.state(taskID); t.FinishedAt != nil {
		n.Wrongf("the import has ended during the burst: give it more rows")
	}
	var canceled struct{}
	rig.Check(n.tenant.Do(&canceled, `mutation ($id: ID!) { cancelTask(input: {id: $id}) { errors { code message } } }`,
		map[string]any{"id": taskID}))
	n.Await("the import has ended", func() bool { return n.state(taskID).FinishedAt != nil })
	n.Rest(n.PIDs(), 10*time.Second)
	return figures
}

// task is a task as the API returns it.
type task struct {
	Status     string
	Done       int64
	FinishedAt *time.Time
	Report     struct{ Bytes int64 }
}

func (n *node) state(taskID string) (t task) {
	var got struct{ Node task }
	rig.Check(n.tenant.Do(&got, `query ($id: ID!) { node(id: $id) { ... on Task { status done finishedAt
		report { ... on WorkspaceArchive { bytes } } } } }`, map[string]any{"id": taskID}))
	return got.Node
}

// create creates a task, and returns its id. The result also has the fields.
func (n *node) create(name, input, fields string, in map[string]any, into ...any) string {
	all := map[string]any{"workspaceId": n.tenant.Workspace}
	for field, value := range in {
		all[field] = value
	}
	var got map[string]struct {
		Task      struct{ ID string }
		UploadURL string
	}
	rig.Check(n.tenant.Do(&got, "mutation ($in: "+input+"!) { "+name+"(input: $in) { task { id } "+fields+
		" errors { code message } } }",
		map[string]any{"in": all}))
	for _, one := range into {
		*one.(*string) = got[name].UploadURL
	}
	return got[name].Task.ID
}

// importFile begins to import a file with new links.
func (n *node) importFile(size int) string {
	file := bytes.Buffer{}
	file.WriteString("code,url,title,tags\n")
	for i := range size {
		fmt.Fprintf(&file, "c-%d-%d,%s,A title of some words,\"a,b\"\n", n.files, i,
			strings.Replace(rig.URLOf(i), "://", fmt.Sprintf("://i%d.", n.files), 1))
	}
	n.files++
	var uploadURL string
	taskID := n.create("createImport", "CreateImportInput", "uploadUrl",
		map[string]any{"source": "CSV", "dryRun": false}, &uploadURL)
	request := rig.Must(http.NewRequestWithContext(n.Context, http.MethodPut, uploadURL, &file))
	response := rig.Must(http.DefaultClient.Do(request))
	rig.Check(response.Body.Close())
	if response.StatusCode != http.StatusCreated {
		rig.Failf("the upload answers %s", response.Status)
	}
	return taskID
}

// measureTask prints the rate, the CPU time and the memory of a task.
func (n *node) measureTask(name string, begin func() string) {
	n.Rest(n.PIDs(), 30*time.Second)
	before, began := rig.Used(n.Target), time.Now()
	rest, peak := rig.RSS(n.process.PID), 0
	taskID := begin()
	var t task
	for t.FinishedAt == nil {
		n.Pause(50 * time.Millisecond)
		peak, t = max(peak, rig.RSS(n.process.PID)), n.state(taskID)
	}
	took, used := time.Since(began), rig.Used(n.Target).Since(before)
	if t.Status != "SUCCEEDED" {
		n.Wrongf("the %s is %s", name, t.Status)
	}
	per := func(d time.Duration) float64 { return rig.Micros(d) / float64(t.Done) }
	fmt.Printf("- %s: %d items in %.1f s, half of it pauses: %.0f a second; CPU %.0f µs an item, of which PostgreSQL "+
		"and Redis %.0f; "+
		"memory %d MiB, %d more than before", name, t.Done, took.Seconds(), float64(t.Done)/took.Seconds(),
		per(used.Own+used.Beside),
		per(used.Beside), peak>>20, (peak-rest)>>20)
	if t.Report.Bytes > 0 {
		fmt.Printf("; %d bytes", t.Report.Bytes)
	}
	fmt.Println()
}

// measureIdle prints the CPU time of an idle node that looks for tasks, and of one that does not,
// one after the other.
func (n *node) measureIdle() {
	var used [2][]float64
	for range 2 {
		for i, slots := range []string{"0", "2"} {
			env, beside := environment(n.Run)
			p := n.Serve("idle-"+slots+fmt.Sprint(len(used[i])), n.Server,
				append(env, "LINKFORGE_TASK_SLOTS="+slots)...)
			target := rig.Target{Own: []int{p.PID}, Beside: beside}
			n.Rest(target.PIDs(), 30*time.Second)
			before := rig.Used(target)
			n.Pause(*idle)
			u := rig.Used(target).Since(before)
			used[i] = append(used[i], 100*float64(u.Own+u.Beside)/float64(u.At))
			p.Stop()
		}
	}
	fmt.Printf("- an idle node: %s %% of a core without tasks, %s %% with two slots\n",
		rig.Spread(used[0], "%.2f", rig.Same),
		rig.Spread(used[1], "%.2f", rig.Same))
}
